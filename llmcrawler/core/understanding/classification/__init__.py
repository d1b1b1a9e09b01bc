"""Page types of pages: structured data, rules, the model's verdicts, and how the pages of a template share them."""

from llmcrawler.core.understanding.classification.classifier import Classifier
from llmcrawler.core.understanding.classification.classify_prompt import describe_page
from llmcrawler.core.understanding.classification.page_asker import (
    ClassifyWorker,
    PageView,
    call_tokens,
    check_question,
    site_of,
    tokens_of,
)
from llmcrawler.core.understanding.classification.page_type_rules import PageTypeRules
from llmcrawler.core.understanding.classification.page_types import (
    DEFAULT_PAGE_TYPES,
    PageType,
    PageTypes,
    load_page_types,
)
from llmcrawler.core.understanding.classification.question import (
    CLASSIFIER,
    LLM,
    NO_CUE,
    RULE,
    STRUCTURED_DATA,
    TEMPLATE,
    UNSURE,
    Answer,
    Question,
    Verdict,
)
from llmcrawler.core.understanding.classification.template_samples import SiteVerdicts
