-- The share that may be taken for known, and the urls to make room for. Returns the filter, and whether it is new.
local chosen = redis.call('HGET', KEYS[1] .. ':meta', 'filter')
if chosen then return {chosen, 0} end
local made = redis.pcall('BF.RESERVE', KEYS[1] .. ':seen', ARGV[1], ARGV[2])
chosen = made.err and 'set' or 'bloom'
redis.call('HSET', KEYS[1] .. ':meta', 'filter', chosen)
return {chosen, 1}
