"""Records: learned from a few pages of a template with the model, then taken from every page by selectors."""

from llmcrawler.extraction.blocks import PageBlocks, shown_blocks
from llmcrawler.extraction.compiled import CompiledExtractor, Extraction, compile_extractor
from llmcrawler.extraction.description import described_schema, described_selectors
from llmcrawler.extraction.induction import LessonRules, Teacher
from llmcrawler.extraction.kept import KeptRecords, read_learners
from llmcrawler.extraction.learner import Learner, LearnerKey
from llmcrawler.extraction.model import Extractor, Field, FieldRule, Selector
from llmcrawler.extraction.place import Place, extract_best
from llmcrawler.extraction.record_types import RecordTypes
from llmcrawler.extraction.records import RecordAnswer, RecordQuestion, RecordRules, Records
from llmcrawler.extraction.schema import Wanted, schema_of
from llmcrawler.extraction.single import SingleRecords
from llmcrawler.extraction.teachers import FallbackTeacher, LLMTeacher, StructuredTeacher, lesson_tokens
from llmcrawler.extraction.validation import Validator
from llmcrawler.extraction.wanted import load_schema, wanted_fields

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
