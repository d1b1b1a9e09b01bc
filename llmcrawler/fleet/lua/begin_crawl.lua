-- what is asked for, an id, the format of our keys. Returns what the crawl that is there now was asked for, its
-- format, and its id: none where it is being deleted. One that was finished may have urls again.
local meta = KEYS[1] .. ':meta'
if redis.call('HEXISTS', meta, 'spec') == 0 then
  redis.call('HSET', meta, 'spec', ARGV[1], 'started', redis.call('TIME')[1], 'id', ARGV[2], 'format', ARGV[3],
    'state', 'running')
end
local known = redis.call('HMGET', meta, 'format', 'state')
if known[1] == ARGV[3] and known[2] == 'finished' then redis.call('HSET', meta, 'state', 'running') end
return redis.call('HMGET', meta, 'spec', 'format', 'id')
