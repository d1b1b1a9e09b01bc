"""Asks a language model: chooses it, keeps to limits and a budget, batches questions, and caches answers."""

from llmcrawler.llm.batching import Batcher, BatchReport, call_bound
from llmcrawler.llm.budget import Account, Budget, BudgetLimits
from llmcrawler.llm.cache import AnswerCache, AnswerStore, cache_key
from llmcrawler.llm.cached import CachedAsker
from llmcrawler.llm.call_limits import CallLimits, CallRate, Clock
from llmcrawler.llm.client import AskLLM, LLMClient
from llmcrawler.llm.providers import ProviderChoice, read_price, resolve_provider
from llmcrawler.llm.tokens import estimate_tokens, truncate_to_tokens
from llmcrawler.llm.usage import CallReport, Price, Usage, price_of
from llmcrawler.llm.waiting import BatchRules

__all__ = [
    "Account",
    "AnswerCache",
    "AnswerStore",
    "AskLLM",
    "BatchReport",
    "BatchRules",
    "Batcher",
    "Budget",
    "BudgetLimits",
    "CachedAsker",
    "CallLimits",
    "CallRate",
    "CallReport",
    "Clock",
    "LLMClient",
    "Price",
    "ProviderChoice",
    "Usage",
    "cache_key",
    "call_bound",
    "estimate_tokens",
    "price_of",
    "read_price",
    "resolve_provider",
    "truncate_to_tokens",
]
