-- worker, the number of this addition, then for each url: bucket, key, queue, priority, task
-- include common
counts()
local added, lists = 0, {}
for i = 3, #ARGV, 5 do
  if is_new(ARGV[i], ARGV[i + 1]) then
    local queue, priority = ARGV[i + 2], ARGV[i + 3]
    local name = queue .. ':' .. priority
    known.arrival, added = known.arrival + 1, added + 1
    lists[name] = lists[name] or {queue = queue, priority = tonumber(priority), first = known.arrival}
    append(lists[name], {string.format('%.0f ', known.arrival) .. ARGV[i + 4]})
    count('queued', queue, 1, 1)
  end
end
for name, list in pairs(lists) do
  if redis.call('RPUSH', P .. 'q:' .. name, unpack(list)) == #list then
    redis.call('ZADD', P .. 'p:' .. list.queue, list.priority, list.priority)
    place_anew(list.queue, worker_of(site_of(list.queue)), {list.priority, list.first}, true)
  end
end
known[ADDED] = tonumber(ARGV[2])
tally()
return {counts(), added}
