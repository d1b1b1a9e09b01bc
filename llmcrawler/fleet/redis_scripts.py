"""Lua of the Redis frontier: it adds, leases, acknowledges and releases urls (keys: fleet/queue_structure.py)."""

from __future__ import annotations

from typing import Final

from llmcrawler.fleet.queue_structure import COMMON

# worker, the number of this addition, then for each url: bucket, key, queue, priority, task
ADD: Final = (
    COMMON
    + """
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
"""
)

# group, priority, ...
SET_PRIORITIES: Final = (
    COMMON
    + """
for i = 1, #ARGV, 2 do
  redis.call('HSET', P .. 'priorities', ARGV[i], ARGV[i + 1])
  for _, queue in ipairs(redis.call('SMEMBERS', P .. 'g:' .. ARGV[i])) do place_anew(queue) end
end
"""
)

# Places that are left under max_pages.
_PLACES: Final = """
local function places(most)
  local known = counts()
  local taken = known[2] + known[3] - math.min(known[5], most) + math.max(0, known[4] - most)
  return most - taken
end
"""

# worker, number of this request, limit, per_host, worst or "", JSON of held by host, max_pages or "".
# Returns the counts, and what is leased: (arrival, attempts, queue, priority, task), flat. A request that comes again,
# as its reply was lost, gets the same; one that was overtaken by a later one gets nothing. The worker's share of the
# sites that wait is claimed, and one more where there would be no url.
LEASE: Final = (
    COMMON
    + _PLACES
    + """
local worker, number, limit, per_host = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local worst, held = tonumber(ARGV[5]), cjson.decode(ARGV[6])
local leased, arrivals = {}, {}
local last = redis.call('HGET', P .. 'replies', worker)
local last_number = last and tonumber(string.match(last, '^%d+')) or 0
if number <= last_number then
  for arrival in string.gmatch(number == last_number and last or '', ' (%d+)') do
    local holder, _, priority, queue, task = holding(arrival)
    local attempts = redis.call('HGET', P .. 'attempts', arrival) or '0'
    if holder == worker then append(leased, {tonumber(arrival), attempts, queue, tonumber(priority), task}) end
  end
  return {counts(), leased}
end
local is_paused = redis.call('HGET', P .. 'meta', 'state') == 'paused'
if is_paused or not redis.call('ZSCORE', P .. 'workers', worker) then return {counts(), leased} end
if ARGV[7] ~= '' then limit = math.min(limit, places(tonumber(ARGV[7]))) end
local share = math.ceil(redis.call('SCARD', P .. 'busy_sites') / redis.call('ZCARD', P .. 'workers'))
local function claim()
  local site = redis.call('ZREVRANGE', P .. 'waiting', 0, 0)[1]
  if site then own(site, worker) end
  return site
end
for _ = 1, math.min(limit, share - sites_at_work(worker)) do
  if not claim() then break end
end
local from, has_claimed = 0, false
while limit > 0 do
  local turns = redis.call('ZRANGE', P .. 'turns:' .. worker, from, from + 49, 'WITHSCORES')
  local popped, is_end = false, #turns < 100
  for i = 1, #turns, 2 do
    local queue = turns[i]
    local host = host_of(queue)
    if worst and math.floor(turns[i + 1] / (PRIORITIES * ARRIVALS)) - 1 > worst then is_end = true break end
    if (held[host] or 0) < per_host then
      held[host] = (held[host] or 0) + 1
      local priority, arrival, task = pop(queue)
      local lease = {worker, string.format('%.0f', number), priority, queue, task}
      redis.call('HSET', P .. 'leases', arrival, table.concat(lease, '\\31'))
      redis.call('SADD', P .. 'out:' .. site_of(queue), arrival)
      local attempts = redis.call('HGET', P .. 'attempts', arrival) or '0'
      append(leased, {arrival, attempts, queue, priority, task})
      arrivals[#arrivals + 1] = string.format('%.0f', arrival)
      limit, popped = limit - 1, true
      break
    end
    from = from + 1
  end
  if limit > 0 and not popped and is_end then
    if #arrivals > 0 or has_claimed or not claim() then break end
    has_claimed, from = true, 0
  end
end
tally()
if limit > 0 and redis.call('ZCARD', P .. 'waiting') == 0 then
  redis.call('ZADD', P .. 'hungry', sites_at_work(worker), worker)
else
  redis.call('ZREM', P .. 'hungry', worker)
end
if #arrivals > 0 then
  redis.call('HSET', P .. 'replies', worker, number .. ' ' .. table.concat(arrivals, ' '))
end
return {counts(), leased}
"""
)

# worker, lease ("arrival number of the request"), by how many to count its attempts up; 0 sets them to none
START: Final = (
    COMMON
    + """
local arrival = held_by(ARGV[1], ARGV[2])
if not arrival then return 0 end
if ARGV[3] == '0' then return redis.call('HDEL', P .. 'attempts', arrival) end
return redis.call('HINCRBY', P .. 'attempts', arrival, ARGV[3])
"""
)

# worker, its last addition, then for each url: lease, what it is (1: dead, 2: a duplicate, else 0), its error
# ("stage/kind", or ""), its line to be kept (or ""), url. Nothing is acknowledged where that addition is lost, as links
# of these urls may be lost with it.
ACK: Final = (
    COMMON
    + """
if last_added(ARGV[1]) < tonumber(ARGV[2]) then return {counts(), false} end
local done = {}
for i = 3, #ARGV, 5 do
  local arrival, _, queue = held_by(ARGV[1], ARGV[i])
  if arrival then
    drop(arrival, queue)
    redis.call('HDEL', P .. 'attempts', arrival)
    count(ARGV[i + 1] == '1' and 'dead' or 'done', queue, 1)
    if ARGV[i + 1] == '2' then count('duplicates', queue, 1) end
    if ARGV[i + 2] ~= '' then redis.call('HINCRBY', P .. 'errors', ARGV[i + 2], 1) end
    if ARGV[i + 1] == '1' then
      redis.call('LPUSH', P .. 'dead_letters', ARGV[i + 2] .. ' ' .. ARGV[i + 4])
      redis.call('LTRIM', P .. 'dead_letters', 0, 99)
    end
    if ARGV[i + 3] ~= '' then redis.call('HSET', P .. 'lines:' .. ARGV[1], ARGV[i + 4], ARGV[i + 3]) end
  end
  done[#done + 1] = arrival and 1 or 0
end
tally()
return {counts(), done}
"""
)

# worker, leases
RELEASE: Final = (
    COMMON
    + """
local released = {}
for i = 2, #ARGV do
  local arrival, priority, queue, task = held_by(ARGV[1], ARGV[i])
  released[#released + 1] = arrival and 1 or 0
  if arrival then
    drop(arrival, queue)
    bring_back(queue, priority, tonumber(arrival), task)
  end
end
tally()
return {counts(), released}
"""
)

# bucket and key of the target, the key of the url that is redirected to it
RESERVE: Final = (
    COMMON
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
COUNTS: Final = COMMON + "return {counts(), last_added(ARGV[1])}"

# The share that may be taken for known, and the urls to make room for. Returns the filter, and whether it is new.
CHOOSE_FILTER: Final = """
local chosen = redis.call('HGET', KEYS[1] .. ':meta', 'filter')
if chosen then return {chosen, 0} end
local made = redis.pcall('BF.RESERVE', KEYS[1] .. ':seen', ARGV[1], ARGV[2])
chosen = made.err and 'set' or 'bloom'
redis.call('HSET', KEYS[1] .. ':meta', 'filter', chosen)
return {chosen, 1}
"""
