-- requests a minute, tokens a minute (0: no limit), tokens, name of the call. Returns the seconds to wait.
local P = KEYS[1] .. ':llm:'
local time = redis.call('TIME')
local at = time[1] + time[2] / 1000000
local requests, most, tokens = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local wait = tonumber(redis.call('GET', P .. 'paused_until') or '0') - at
for _, old in ipairs(redis.call('ZRANGEBYSCORE', P .. 'starts', '-inf', at - 60)) do
  redis.call('HDEL', P .. 'tokens', old)
  redis.call('ZREM', P .. 'starts', old)
end
local starts = redis.call('ZRANGE', P .. 'starts', 0, -1, 'WITHSCORES')
if requests > 0 and #starts / 2 >= requests then
  wait = math.max(wait, starts[#starts - 2 * requests + 2] + 60 - at)
end
if most > 0 then
  -- A call over the whole limit waits until the minute is empty: it could never go otherwise.
  local surplus = tokens - most
  for _, spent in ipairs(redis.call('HVALS', P .. 'tokens')) do surplus = surplus + spent end
  for i = 1, #starts, 2 do
    if surplus <= 0 then break end
    surplus = surplus - (redis.call('HGET', P .. 'tokens', starts[i]) or 0)
    wait = math.max(wait, starts[i + 1] + 60 - at)
  end
end
if wait <= 0 then
  redis.call('ZADD', P .. 'starts', at, ARGV[4])
  redis.call('HSET', P .. 'tokens', ARGV[4], tokens)
end
return tostring(wait)
