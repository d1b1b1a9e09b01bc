"""Item pipelines: the stages of a page between the spider and the feed."""
