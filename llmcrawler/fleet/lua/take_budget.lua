-- limits of tokens and money (0: none), tokens and money to take. Returns whether they were taken, and the totals.
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
