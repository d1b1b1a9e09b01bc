"""The Lua of the Redis frontier. KEYS[1] is the prefix of the crawl's keys; time is the server's unless one is given.

meta              hash: what was asked for, `filter`: set or bloom
counts            hash: queued, done, dead, duplicates (of done), arrival (of the last url)
hosts             hash: the first four by host
queued_hosts      hash: host -> its queued urls, if there are any; autoscalers can read how many hosts that are
seen:N            sets of integers, small enough that each takes 8 bytes (64 bits of a url's hash, 14 of them are N)
seen              or the Bloom filter
redirect_targets  hash: hash of a redirect's target -> hash of the url that is redirected to it
turns             sorted set: queue (host and group) -> place of its first url
q:QUEUE:P         list: the urls of one priority, as they came: "arrival task"
p:QUEUE           sorted set: the priorities for which there is a list
b:QUEUE           sorted set: urls that came back, by their places
priorities        hash: group -> its priority; g:GROUP set: its queues
leases            hash: arrival -> holder, priority, queue, task; deadlines sorted set: arrival -> when it is free again
attempts          hash: arrival -> times that a holder began with it
added             hash: worker -> the number of its last addition
errors            hash: "stage/kind" -> pages; dead_letters list: the latest hundred, "stage/kind url"
lines:WORKER      hash: url -> a finished page's line that no feed has yet
grace_until       moment before which no lease expires, see distributed/connection.py

A place is one number: the priority of the group, the priority, the arrival. A double holds 53 bits exactly; priorities
are cut to 6.
"""

from __future__ import annotations

from typing import Final

_COMMON: Final = """
local P = KEYS[1] .. ':'
local ARRIVALS, PRIORITIES = 2^40, 64
local function now(given)
  if given ~= '' then return tonumber(given) end
  local time = redis.call('TIME')
  return time[1] + time[2] / 1000000
end
local function clip(priority) return math.max(-1, math.min(PRIORITIES - 2, priority)) + 1 end
local function place(group, priority, arrival)
  local first = priority <= -1 and -1 or tonumber(redis.call('HGET', P .. 'priorities', group) or '0')
  return (clip(first) * PRIORITIES + clip(priority)) * ARRIVALS + arrival
end
local function group_of(queue) return string.match(queue, '\\n(.*)$') end
local function host_of(queue) return string.match(queue, '^(.-)\\n') end
local function count(name, queue, by)
  redis.call('HINCRBY', P .. 'counts', name, by)
  redis.call('HINCRBY', P .. 'hosts', name .. ' ' .. host_of(queue), by)
  if name == 'queued' and redis.call('HINCRBY', P .. 'queued_hosts', host_of(queue), by) <= 0 then
    redis.call('HDEL', P .. 'queued_hosts', host_of(queue))
  end
end
local function has_head(queue, group, priority, arrival)
  redis.call('ZADD', P .. 'turns', 'LT', place(group, priority, arrival), queue)
  redis.call('SADD', P .. 'g:' .. group, queue)
end
local function bring_back(queue, priority, arrival, task)
  redis.call('ZADD', P .. 'b:' .. queue, clip(priority) * ARRIVALS + arrival, priority .. ' ' .. arrival .. ' ' .. task)
  has_head(queue, group_of(queue), priority, arrival)
  count('queued', queue, 1)
end
-- The first of a queue: priority, arrival, task, and whether it came back.
local function head(queue)
  local priority = redis.call('ZRANGE', P .. 'p:' .. queue, 0, 0)[1]
  local arrival, task
  if priority then
    arrival, task = string.match(redis.call('LINDEX', P .. 'q:' .. queue .. ':' .. priority, 0), '^(%d+) (.*)$')
    priority, arrival = tonumber(priority), tonumber(arrival)
  end
  local back = redis.call('ZRANGE', P .. 'b:' .. queue, 0, 0)[1]
  if back then
    local old_priority, old_arrival, old_task = string.match(back, '^(%-?%d+) (%d+) (.*)$')
    old_priority, old_arrival = tonumber(old_priority), tonumber(old_arrival)
    if not priority or old_priority < priority or (old_priority == priority and old_arrival < arrival) then
      return old_priority, old_arrival, old_task, back
    end
  end
  return priority, arrival, task, nil
end
local function place_anew(queue)
  local group = group_of(queue)
  local priority, arrival = head(queue)
  if priority then
    redis.call('ZADD', P .. 'turns', place(group, priority, arrival), queue)
  else
    redis.call('ZREM', P .. 'turns', queue)
    redis.call('SREM', P .. 'g:' .. group, queue)
  end
end
local function pop(queue)
  local priority, arrival, task, back = head(queue)
  if back then
    redis.call('ZREM', P .. 'b:' .. queue, back)
  else
    local list = P .. 'q:' .. queue .. ':' .. priority
    redis.call('LPOP', list)
    if redis.call('EXISTS', list) == 0 then redis.call('ZREM', P .. 'p:' .. queue, priority) end
  end
  place_anew(queue)
  count('queued', queue, -1)
  return priority, arrival, task
end
local function append(list, values) for _, value in ipairs(values) do list[#list + 1] = value end end
local function holding(arrival)
  local lease = redis.call('HGET', P .. 'leases', arrival)
  if not lease then return nil end
  return string.match(lease, '^(.-)\\31(%-?%d+)\\31(.-)\\31(.*)$')
end
local function drop(arrival)
  redis.call('HDEL', P .. 'leases', arrival)
  redis.call('ZREM', P .. 'deadlines', arrival)
end
local function is_new(bucket, key)
  if redis.call('HGET', P .. 'meta', 'filter') == 'bloom' then
    return redis.call('BF.ADD', P .. 'seen', bucket .. ':' .. key) == 1
  end
  return redis.call('SADD', P .. 'seen:' .. bucket, key) == 1
end
local function last_added(worker) return tonumber(redis.call('HGET', P .. 'added', worker) or '0') end
local function counts()
  local known = redis.call('HMGET', P .. 'counts', 'queued', 'done', 'dead', 'duplicates')
  for i = 1, 4 do known[i] = tonumber(known[i] or 0) end
  return {known[1], redis.call('HLEN', P .. 'leases'), known[2], known[3], known[4]}
end
"""

# worker, the number of this addition, then for each url: bucket, key, queue, priority, task
ADD: Final = (
    _COMMON
    + """
local arrival, added = tonumber(redis.call('HGET', P .. 'counts', 'arrival') or '0'), 0
for i = 3, #ARGV, 5 do
  if is_new(ARGV[i], ARGV[i + 1]) then
    local queue, priority = ARGV[i + 2], tonumber(ARGV[i + 3])
    arrival, added = arrival + 1, added + 1
    redis.call('RPUSH', P .. 'q:' .. queue .. ':' .. priority, arrival .. ' ' .. ARGV[i + 4])
    redis.call('ZADD', P .. 'p:' .. queue, priority, priority)
    has_head(queue, group_of(queue), priority, arrival)
    count('queued', queue, 1)
  end
end
redis.call('HSET', P .. 'counts', 'arrival', arrival)
redis.call('HSET', P .. 'added', ARGV[1], ARGV[2])
return {counts(), added}
"""
)

# group, priority, ...
SET_PRIORITIES: Final = (
    _COMMON
    + """
for i = 1, #ARGV, 2 do
  redis.call('HSET', P .. 'priorities', ARGV[i], ARGV[i + 1])
  for _, queue in ipairs(redis.call('SMEMBERS', P .. 'g:' .. ARGV[i])) do place_anew(queue) end
end
"""
)

# now, worker, limit, per_host, worst or "", JSON of held by host, seconds of a lease, max_leases, max_pages or "".
# Returns the counts, what is leased and what is lost: (arrival, attempts, queue, priority, task), flat.
LEASE: Final = (
    _COMMON
    + """
local at, limit, per_host = now(ARGV[1]), tonumber(ARGV[3]), tonumber(ARGV[4])
local worst, held, seconds, max_leases = tonumber(ARGV[5]), cjson.decode(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
local leased, lost = {}, {}
if tonumber(redis.call('GET', P .. 'grace_until') or '0') <= at then
  for _, arrival in ipairs(redis.call('ZRANGEBYSCORE', P .. 'deadlines', '-inf', at, 'LIMIT', 0, 200)) do
    local holder, priority, queue, task = holding(arrival)
    local attempts = tonumber(redis.call('HGET', P .. 'attempts', arrival) or '0')
    drop(arrival)
    redis.call('HINCRBY', P .. 'counts', 'expired', 1)
    if attempts < max_leases then
      bring_back(queue, tonumber(priority), tonumber(arrival), task)
    else
      count('dead', queue, 1)
      append(lost, {arrival, attempts, queue, priority, task})
    end
  end
end
if ARGV[9] ~= '' then
  local known, most = counts(), tonumber(ARGV[9])
  local counted = known[2] + known[3] - math.min(known[5], most) + math.max(0, known[4] - most)
  limit = math.min(limit, most - counted)
end
local from = 0
while limit > 0 do
  local turns = redis.call('ZRANGE', P .. 'turns', from, from + 49, 'WITHSCORES')
  if #turns == 0 then break end
  local popped = false
  for i = 1, #turns, 2 do
    local queue = turns[i]
    local host = host_of(queue)
    if worst and math.floor(turns[i + 1] / (PRIORITIES * ARRIVALS)) - 1 > worst then limit = 0 break end
    if (held[host] or 0) < per_host then
      held[host] = (held[host] or 0) + 1
      local priority, arrival, task = pop(queue)
      redis.call('HSET', P .. 'leases', arrival, ARGV[2] .. '\\31' .. priority .. '\\31' .. queue .. '\\31' .. task)
      redis.call('ZADD', P .. 'deadlines', at + seconds, arrival)
      local attempts = redis.call('HGET', P .. 'attempts', arrival) or '0'
      append(leased, {arrival, attempts, queue, priority, task})
      limit, popped = limit - 1, true
      break
    end
    from = from + 1
  end
  if limit <= 0 or (not popped and #turns < 100) then break end
end
return {counts(), leased, lost}
"""
)

# worker, arrival, by how many to count its attempts up; 0 sets them to none
START: Final = (
    _COMMON
    + """
if holding(ARGV[2]) ~= ARGV[1] then return 0 end
if ARGV[3] == '0' then return redis.call('HDEL', P .. 'attempts', ARGV[2]) end
return redis.call('HINCRBY', P .. 'attempts', ARGV[2], ARGV[3])
"""
)

# now, worker, seconds, arrivals
RENEW: Final = (
    _COMMON
    + """
local at = now(ARGV[1]) + ARGV[3]
for i = 4, #ARGV do
  if holding(ARGV[i]) == ARGV[2] then redis.call('ZADD', P .. 'deadlines', 'XX', at, ARGV[i]) end
end
"""
)

# worker, its last addition, then for each url: arrival, what it is (1: dead, 2: a duplicate, else 0), its error
# ("stage/kind", or ""), its line to be kept (or ""), url. Nothing is acknowledged where that addition is lost, as links
# of these urls may be lost with it.
ACK: Final = (
    _COMMON
    + """
if last_added(ARGV[1]) < tonumber(ARGV[2]) then return {counts(), false} end
local done = {}
for i = 3, #ARGV, 5 do
  local holder, priority, queue, task = holding(ARGV[i])
  local is_held = holder == ARGV[1]
  if is_held then
    drop(ARGV[i])
    redis.call('HDEL', P .. 'attempts', ARGV[i])
    count(ARGV[i + 1] == '1' and 'dead' or 'done', queue, 1)
    if ARGV[i + 1] == '2' then count('duplicates', queue, 1) end
    if ARGV[i + 2] ~= '' then redis.call('HINCRBY', P .. 'errors', ARGV[i + 2], 1) end
    if ARGV[i + 1] == '1' then
      redis.call('LPUSH', P .. 'dead_letters', ARGV[i + 2] .. ' ' .. ARGV[i + 4])
      redis.call('LTRIM', P .. 'dead_letters', 0, 99)
    end
    if ARGV[i + 3] ~= '' then redis.call('HSET', P .. 'lines:' .. ARGV[1], ARGV[i + 4], ARGV[i + 3]) end
  end
  done[#done + 1] = is_held and 1 or 0
end
return {counts(), done}
"""
)

# worker, arrival
RELEASE: Final = (
    _COMMON
    + """
local holder, priority, queue, task = holding(ARGV[2])
if holder ~= ARGV[1] then return {counts(), 0} end
drop(ARGV[2])
bring_back(queue, tonumber(priority), tonumber(ARGV[2]), task)
return {counts(), 1}
"""
)

# bucket and key of the target, the key of the url that is redirected to it
RESERVE: Final = (
    _COMMON
    + """
local name = ARGV[1] .. ':' .. ARGV[2]
if is_new(ARGV[1], ARGV[2]) then
  redis.call('HSET', P .. 'redirect_targets', name, ARGV[3])
  return 1
end
return redis.call('HGET', P .. 'redirect_targets', name) == ARGV[3] and 1 or 0
"""
)

# worker. Returns the counts, and the number of its last addition.
COUNTS: Final = _COMMON + "return {counts(), last_added(ARGV[1])}"

# The share that may be taken for known, and the urls to make room for. Returns the filter, and whether it is new.
CHOOSE_FILTER: Final = """
local chosen = redis.call('HGET', KEYS[1] .. ':meta', 'filter')
if chosen then return {chosen, 0} end
local made = redis.pcall('BF.RESERVE', KEYS[1] .. ':seen', ARGV[1], ARGV[2])
chosen = made.err and 'set' or 'bloom'
redis.call('HSET', KEYS[1] .. ':meta', 'filter', chosen)
return {chosen, 1}
"""
