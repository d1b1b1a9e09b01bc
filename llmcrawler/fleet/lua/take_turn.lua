-- host, seconds to the next start there, 1 for a guest, seconds of lag. Returns how long to wait, "0" where a request
-- may go out now. A guest waits until all workers have heard of it: from then on the owner takes turns too.
-- include common
local host, gap, at, lag = ARGV[1], tonumber(ARGV[2]), now(), tonumber(ARGV[4])
if ARGV[3] == '1' then
  local key = P .. 'guest:' .. host
  local since, heard = string.match(redis.call('GET', key) or '', '^(%S+) (%S*)$')
  since, heard = tonumber(since) or at, tonumber(heard)
  redis.call('ZADD', P .. 'guests', at, host)
  redis.call('ZREMRANGEBYSCORE', P .. 'guests', '-inf', at - GUEST_SECONDS)
  if not heard and redis.call('ZCOUNT', P .. 'workers', '-inf', since) == 0 then heard = at end
  redis.call('SET', key, since .. ' ' .. (heard or ''), 'EX', GUEST_SECONDS)
  if not heard then return tostring(lag) end
  if at < heard + gap + lag then return tostring(heard + gap + lag - at) end
end
local left = redis.call('PTTL', P .. 'turn:' .. host)
if left > 0 then return tostring(left / 1000) end
if gap > 0 then redis.call('SET', P .. 'turn:' .. host, 1, 'PX', math.ceil(1000 * gap)) end
return '0'
