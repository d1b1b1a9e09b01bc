-- 1 to delete it though workers are there, seconds since their last heartbeats. Returns these workers. Without the id of
-- the crawl whatever a worker still writes is refused.
local meta, at = KEYS[1] .. ':meta', redis.call('TIME')[1]
if redis.call('HGET', meta, 'state') == 'deleting' then return {} end
local here = redis.call('ZRANGEBYSCORE', KEYS[1] .. ':workers', at - ARGV[2], '+inf')
if #here > 0 and ARGV[1] == '0' then return here end
redis.call('HSET', meta, 'state', 'deleting')
redis.call('HDEL', meta, 'id')
return here
