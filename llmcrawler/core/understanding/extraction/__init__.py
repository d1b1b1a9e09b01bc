"""Records: learned from a few pages of a template with the model, then taken from every page by selectors."""

from llmcrawler.core.understanding.extraction.annotators import Annotator, LLMAnnotator, annotation_tokens
from llmcrawler.core.understanding.extraction.blocks import PageBlocks, listed_to_show, main_scores, shown_blocks
from llmcrawler.core.understanding.extraction.column_annotator import ColumnAnnotator
from llmcrawler.core.understanding.extraction.extractor import (
    ExtractionRunner,
    FieldRule,
    SelectorResult,
    TemplateExtractor,
    compile_extractor,
)
from llmcrawler.core.understanding.extraction.learner import (
    Learner,
    LearnerKey,
    LearningOutcome,
    Variant,
    best_match,
    described_schema,
    described_selectors,
    extract_best,
    read_learners,
    waiting_by_type,
)
from llmcrawler.core.understanding.extraction.queries import PageSource
from llmcrawler.core.understanding.extraction.record_schema import (
    Field,
    RecordTypes,
    RecordValidator,
    RequestedSchema,
    load_schema,
    requested_fields,
    tries_guesses,
)
from llmcrawler.core.understanding.extraction.records import (
    BY_STRUCTURED_DATA,
    RecordAnswer,
    RecordQuestion,
    RecordRules,
    Records,
    RecordSerializer,
)
from llmcrawler.core.understanding.extraction.selectors import Selector
from llmcrawler.core.understanding.extraction.training_run import TrainingRules
from llmcrawler.core.understanding.extraction.tree import Work, parse_tree
