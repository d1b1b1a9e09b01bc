-- worker, one that is gone, seconds until it counts as that: its lines that no feed has become the first one's, and its
-- sites wait for new owners. Those of which nothing is left to do but to write what was learned become the first one's.
-- include common
local worker, gone, at = ARGV[1], ARGV[2], now()
local beat_at = redis.call('ZSCORE', P .. 'workers', gone)
if tonumber(META[4] or '0') > at or not beat_at or tonumber(beat_at) > at - ARGV[3] then return false end
local lines = redis.call('HGETALL', P .. 'lines:' .. gone)
for i = 1, #lines, 2 do redis.call('HSET', P .. 'lines:' .. worker, lines[i], lines[i + 1]) end
redis.call('DEL', P .. 'lines:' .. gone)
local finished = {}
for _, site in ipairs(redis.call('ZRANGEBYSCORE', P .. 'own:' .. gone, '-inf', 0)) do
  if redis.call('HEXISTS', P .. 'learned', site) == 1 then finished[#finished + 1] = site end
end
redis.call('HINCRBY', P .. 'counts', 'expired', free(gone))
for _, site in ipairs(finished) do own(site, worker) end
redis.call('ZREM', P .. 'workers', gone)
local said = redis.call('HGET', P .. 'heartbeats', gone)
if said then
  redis.call('HSET', P .. 'lost', gone, said)
  redis.call('HSET', P .. 'ended', gone, beat_at)
end
redis.call('HDEL', P .. 'heartbeats', gone)
return {lines, finished}
