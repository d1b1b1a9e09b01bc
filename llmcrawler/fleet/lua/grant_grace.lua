-- Grants a grace period after an absence of the server, in which no lease and no worker expires.
if redis.call('EXISTS', KEYS[1] .. ':meta') == 0 then return 0 end
local time = redis.call('TIME')
redis.call('SET', KEYS[1] .. ':grace_until', time[1] + ARGV[1], 'EX', math.ceil(ARGV[1]) + 1)
return 1
