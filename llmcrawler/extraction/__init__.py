"""Records: learned from a few pages of a template with the model, then taken from every page by selectors."""

from llmcrawler.extraction.blocks import PageBlocks, shown_blocks
from llmcrawler.extraction.execution import CompiledExtractor, Extraction, Place, compile_extractor
from llmcrawler.extraction.learner import Learner, LearnerKey
from llmcrawler.extraction.model import Extractor, Field, FieldRule, Selector
from llmcrawler.extraction.record_question import RecordAnswer, RecordQuestion, RecordRules
from llmcrawler.extraction.records import Records
from llmcrawler.extraction.schema import Wanted, schema_of
from llmcrawler.extraction.serialization import KeptRecords, described_schema, described_selectors, read_learners
from llmcrawler.extraction.single import SingleRecords
from llmcrawler.extraction.teachers import FallbackTeacher, LLMTeacher, StructuredTeacher, Teacher, lesson_tokens
from llmcrawler.extraction.training_run import LessonRules
from llmcrawler.extraction.validation import Validator
from llmcrawler.extraction.variants import extract_best
from llmcrawler.extraction.wanted import RecordTypes, load_schema, wanted_fields

__all__ = [
    "CompiledExtractor",
    "Extraction",
    "Extractor",
    "FallbackTeacher",
    "Field",
    "FieldRule",
    "KeptRecords",
    "LLMTeacher",
    "Learner",
    "LearnerKey",
    "LessonRules",
    "PageBlocks",
    "Place",
    "RecordAnswer",
    "RecordQuestion",
    "RecordRules",
    "RecordTypes",
    "Records",
    "Selector",
    "SingleRecords",
    "StructuredTeacher",
    "Teacher",
    "Validator",
    "Wanted",
    "compile_extractor",
    "described_schema",
    "described_selectors",
    "extract_best",
    "lesson_tokens",
    "load_schema",
    "read_learners",
    "schema_of",
    "shown_blocks",
    "wanted_fields",
]
