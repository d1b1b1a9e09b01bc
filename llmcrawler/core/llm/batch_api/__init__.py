"""Asks a model through OpenAI's Batch API: many calls in one upload, answered within hours at half the price."""

from llmcrawler.core.llm.batch_api.calls import EarlierCall, SendingRules, WaitingCalls
from llmcrawler.core.llm.batch_api.exchange import BatchExchange
from llmcrawler.core.llm.batch_api.provider import BatchProvider
from llmcrawler.core.llm.batch_api.sender import BatchSender
