"""Records: learned from a few pages of a template with the model, then taken from every page by selectors."""

from llmcrawler.extraction.blocks import PageBlocks, shown_blocks
from llmcrawler.extraction.extraction_runs import CompiledExtractor, Extraction, ExtractionRunner, compile_extractor
from llmcrawler.extraction.learner import Learner, LearnerKey
from llmcrawler.extraction.extractor import TemplateExtractor, Field, FieldRule, Selector
from llmcrawler.extraction.record_question import RecordAnswer, RecordQuestion, RecordRules
from llmcrawler.extraction.records import Records
from llmcrawler.extraction.record_schema import RequestedSchema, schema_of
from llmcrawler.extraction.record_serialization import (
    RecordSerializer,
    described_schema,
    described_selectors,
    read_learners,
)
from llmcrawler.extraction.single_records import SingleRecords
from llmcrawler.extraction.annotators import (
    FallbackAnnotator,
    LLMAnnotator,
    StructuredDataAnnotator,
    Annotator,
    annotation_tokens,
)
from llmcrawler.extraction.training_run import TrainingRules
from llmcrawler.extraction.record_validation import RecordValidator
from llmcrawler.extraction.variants import extract_best
from llmcrawler.extraction.requested_schema import RecordTypes, load_schema, requested_fields

__all__ = [
    "CompiledExtractor",
    "Extraction",
    "TemplateExtractor",
    "FallbackAnnotator",
    "Field",
    "FieldRule",
    "RecordSerializer",
    "LLMAnnotator",
    "Learner",
    "LearnerKey",
    "TrainingRules",
    "PageBlocks",
    "ExtractionRunner",
    "RecordAnswer",
    "RecordQuestion",
    "RecordRules",
    "RecordTypes",
    "Records",
    "Selector",
    "SingleRecords",
    "StructuredDataAnnotator",
    "Annotator",
    "RecordValidator",
    "RequestedSchema",
    "compile_extractor",
    "described_schema",
    "described_selectors",
    "extract_best",
    "annotation_tokens",
    "load_schema",
    "read_learners",
    "schema_of",
    "shown_blocks",
    "requested_fields",
]
