"""Records: learned from a few pages of a template with the model, then taken from every page by selectors."""

from llmcrawler.extraction.annotators import (
    Annotator,
    LLMAnnotator,
    annotation_tokens,
)
from llmcrawler.extraction.block_choice import listed_to_show, main_scores, shown_blocks
from llmcrawler.extraction.blocks import PageBlocks
from llmcrawler.extraction.extraction_runs import ExtractionRunner, SelectorResult, compile_extractor
from llmcrawler.extraction.extractor import Field, FieldRule, Selector, TemplateExtractor
from llmcrawler.extraction.induce_prompt import TASK as INDUCE_TASK
from llmcrawler.extraction.learner import Learner, LearnerKey, held_by_type
from llmcrawler.extraction.learning_outcome import LearningOutcome
from llmcrawler.extraction.queries import PageSource
from llmcrawler.extraction.record_question import BY_STRUCTURED_DATA, RecordAnswer, RecordQuestion, RecordRules
from llmcrawler.extraction.record_schema import RequestedSchema
from llmcrawler.extraction.record_serialization import (
    RecordSerializer,
    described_schema,
    described_selectors,
    read_learners,
)
from llmcrawler.extraction.record_validation import RecordValidator
from llmcrawler.extraction.records import Records
from llmcrawler.extraction.requested_schema import RecordTypes, load_schema, requested_fields
from llmcrawler.extraction.single_records import SingleRecords
from llmcrawler.extraction.training_run import TrainingRules
from llmcrawler.extraction.tree import Work, parse_tree
from llmcrawler.extraction.variants import Variant, best_match, extract_best
