-- group, priority, ...
-- include common
for i = 1, #ARGV, 2 do
  redis.call('HSET', P .. 'priorities', ARGV[i], ARGV[i + 1])
  place_all('g:' .. ARGV[i])
end
