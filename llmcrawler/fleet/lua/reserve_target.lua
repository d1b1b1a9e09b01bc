-- bucket and key of the target, the key of the url that is redirected to it
-- include common
local name = ARGV[1] .. ':' .. ARGV[2]
if is_new(ARGV[1], ARGV[2]) then
  redis.call('HSET', P .. 'redirect_targets', name, ARGV[3])
  return 1
end
return redis.call('HGET', P .. 'redirect_targets', name) == ARGV[3] and 1 or 0
