"""Keeps the budget of the model over all workers of a crawl together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from llmcrawler.fleet.connection import RedisConnection

# limits of tokens and money (0: none), tokens and money to take. Returns whether they were taken, and the totals.
_TAKE: Final = """
local name = KEYS[1] .. ':llm:spent'
local tokens = tonumber(redis.call('HGET', name, 'tokens') or '0')
local cost = tonumber(redis.call('HGET', name, 'cost_usd') or '0')
local most, dear = tonumber(ARGV[1]), tonumber(ARGV[2])
-- A millionth of a cent: sums of floats are not exact.
if (most > 0 and tokens + ARGV[3] > most) or (dear > 0 and cost + ARGV[4] > dear + 1e-8) then
  return {0, tokens, tostring(cost)}
end
tokens = redis.call('HINCRBY', name, 'tokens', ARGV[3])
return {1, tokens, redis.call('HINCRBYFLOAT', name, 'cost_usd', ARGV[4])}
"""

_ADD: Final = """
local name = KEYS[1] .. ':llm:spent'
redis.call('HINCRBY', name, 'tokens', ARGV[1])
redis.call('HINCRBYFLOAT', name, 'cost_usd', ARGV[2])
"""


class SharedBudget:
    """Takes the price of calls from the budget of the crawl. What is not given back is spent: a worker that is killed
    leaves the whole price of its calls.
    """

    def __init__(self, connection: RedisConnection, max_tokens: int, max_cost_usd: float) -> None:
        self._connection = connection
        self._limits = (max_tokens, max_cost_usd)

    async def take(self, tokens: int, cost_usd: float) -> tuple[bool, int, float]:
        """Take from the budget; return whether that was left, and the tokens and money that all workers have taken."""
        taken, all_tokens, all_cost = await self._connection.run(_TAKE, *self._limits, tokens, cost_usd)
        return bool(taken), int(all_tokens), float(all_cost)

    async def give_back(self, tokens: int, cost_usd: float) -> None:
        await self._connection.run(_ADD, -tokens, -cost_usd)
