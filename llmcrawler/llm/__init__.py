"""Asks a language model: chooses it, keeps to limits and a budget, batches questions, and caches answers."""

from llmcrawler.llm.batch_api import EarlierCall, SendingRules, WaitingCalls
from llmcrawler.llm.batching import Batcher, BatchReport, call_bound
from llmcrawler.llm.budget import Account, Budget, BudgetLimits
from llmcrawler.llm.cache import AnswerCache, AnswerStore, CachedAsker, cache_key
from llmcrawler.llm.call_limits import CallLimits, CallRate, Clock
from llmcrawler.llm.client import AskLLM, LLMClient
from llmcrawler.llm.dialect import MAX_ID_CHARS, ModelRequest
from llmcrawler.llm.endpoints import Endpoint, read_fallbacks
from llmcrawler.llm.providers import ProviderChoice, own_prices, resolve_provider
from llmcrawler.llm.tokens import estimate_tokens
from llmcrawler.llm.usage import CallReport, Price, Tokens, Usage, price_of
from llmcrawler.llm.waiting import BatchRules
