"""Asks a language model: chooses it, keeps to limits and a budget, batches questions, and caches answers."""

from llmcrawler.core.llm.batching import BatchCache, Batcher, BatchReport, BatchRules, BatchWatch
from llmcrawler.core.llm.budget import Account, Budget, BudgetLimits
from llmcrawler.core.llm.cache import AnswerCache, AnswerStore, cache_key
from llmcrawler.core.llm.call_limits import CallLimits, CallRate, Clock
from llmcrawler.core.llm.client import AskLLM, LLMClient
from llmcrawler.core.llm.dialect import MAX_ID_CHARS, ModelRequest
from llmcrawler.core.llm.providers import Endpoint, ProviderChoice, own_prices, read_fallbacks, resolve_provider
from llmcrawler.core.llm.usage import CallReport, Price, Tokens, Usage, estimate_tokens, price_of
