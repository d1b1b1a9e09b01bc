-- the state that is to change, the new one. Returns the state before.
local meta = KEYS[1] .. ':meta'
local state = redis.call('HGET', meta, 'state')
if state == ARGV[1] then redis.call('HSET', meta, 'state', ARGV[2]) end
return state
