"""Groups a site's pages by the template that made them, while they come."""

from llmcrawler.templates.clustering import recluster
from llmcrawler.templates.duplicates import DuplicateIndex
from llmcrawler.templates.grouping import TemplateGrouper
from llmcrawler.templates.grouping_types import Assignment, Changes, Clustering, PageSample, Snapshot, TemplateSummary
from llmcrawler.templates.page_lookup import PageLookup
from llmcrawler.templates.page_sketch import PageSketch, sketch_page
from llmcrawler.templates.page_tokens import words_of
from llmcrawler.templates.url_tokens import url_tokens
