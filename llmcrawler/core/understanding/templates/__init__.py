"""Groups a site's pages by the template that made them, while they come."""

from llmcrawler.core.understanding.templates.clustering import recluster
from llmcrawler.core.understanding.templates.duplicates import DuplicateIndex
from llmcrawler.core.understanding.templates.grouping import TemplateGrouper
from llmcrawler.core.understanding.templates.grouping_types import (
    Assignment,
    Changes,
    Clustering,
    Snapshot,
    TemplateSummary,
)
from llmcrawler.core.understanding.templates.page_lookup import PageLookup
from llmcrawler.core.understanding.templates.page_sketch import PageSketch, sketch_page
from llmcrawler.core.understanding.templates.page_tokens import words_of
