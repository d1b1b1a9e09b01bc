"""Groups a site's pages by the template that made them, while they come."""

from llmcrawler.core.understanding.templates.clustering import Clustering, Snapshot, recluster
from llmcrawler.core.understanding.templates.duplicates import DuplicateIndex, PageSketch, sketch_page
from llmcrawler.core.understanding.templates.grouping import Assignment, Changes, TemplateGrouper, TemplateSummary
from llmcrawler.core.understanding.templates.page_sample import words_of
