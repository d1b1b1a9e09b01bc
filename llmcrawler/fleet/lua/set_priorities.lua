-- group, priority, ...
-- include common
for i = 1, #ARGV, 2 do
  redis.call('HSET', P .. 'priorities', ARGV[i], ARGV[i + 1])
  for _, queue in ipairs(redis.call('SMEMBERS', P .. 'g:' .. ARGV[i])) do place_anew(queue) end
end
