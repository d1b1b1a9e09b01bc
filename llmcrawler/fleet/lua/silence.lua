-- Whether silence says that a worker is gone. Where no heartbeat at all came for long, the server itself stood still,
-- and what waited to be said is only now being read.
local function may_judge(at, gone_seconds)
  local last = tonumber(redis.call('GET', P .. 'beat_at') or '0')
  if at - last > gone_seconds / 2 then
    redis.call('SET', P .. 'grace_until', at + gone_seconds, 'EX', math.ceil(gone_seconds) + 1)
  end
  return tonumber(redis.call('GET', P .. 'grace_until') or '0') <= at
end
local function free_all(worker)
  local expired = 0
  for _, site in ipairs(redis.call('ZRANGE', P .. 'own:' .. worker, 0, -1)) do
    expired = expired + free(site, worker)
  end
  tally()
  redis.call('DEL', P .. 'turns:' .. worker)
  redis.call('ZREM', P .. 'hungry', worker)
  redis.call('HDEL', P .. 'replies', worker)
  return expired
end
