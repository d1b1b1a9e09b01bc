"""Online grouping of a site's pages by the template that made them."""

from llmcrawler.templates.clustering import recluster
from llmcrawler.templates.grouping import TemplateGrouper
from llmcrawler.templates.values import Assignment, Changes, Clustering, Group, Sample, Snapshot

__all__ = ["Assignment", "Changes", "Clustering", "Group", "Sample", "Snapshot", "TemplateGrouper", "recluster"]
