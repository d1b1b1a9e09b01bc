"""Groups a site's pages by the template that made them, while they come."""

from llmcrawler.templates.clustering import recluster
from llmcrawler.templates.grouping import TemplateGrouper
from llmcrawler.templates.grouping_types import Assignment, Changes, Clustering, Snapshot, TemplateSummary
from llmcrawler.templates.page_tokens import words_of
