-- worker, the number of this addition, then for each url: bucket, key, queue, priority, task
-- include common
local arrival, added = tonumber(redis.call('HGET', P .. 'counts', 'arrival') or '0'), 0
for i = 3, #ARGV, 5 do
  if is_new(ARGV[i], ARGV[i + 1]) then
    local queue, priority = ARGV[i + 2], tonumber(ARGV[i + 3])
    arrival, added = arrival + 1, added + 1
    redis.call('RPUSH', P .. 'q:' .. queue .. ':' .. priority, arrival .. ' ' .. ARGV[i + 4])
    redis.call('ZADD', P .. 'p:' .. queue, priority, priority)
    has_head(queue, priority, arrival)
    count('queued', queue, 1)
  end
end
tally()
redis.call('HSET', P .. 'counts', 'arrival', arrival)
redis.call('HSET', P .. 'added', ARGV[1], ARGV[2])
return {counts(), added}
