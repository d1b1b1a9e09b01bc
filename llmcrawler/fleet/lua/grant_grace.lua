-- Grants a grace period after an absence of the server, in which no lease and no worker expires.
if redis.call('EXISTS', KEYS[1] .. ':meta') == 0 then return 0 end
redis.call('HSET', KEYS[1] .. ':meta', 'grace_until', redis.call('TIME')[1] + ARGV[1])
return 1
