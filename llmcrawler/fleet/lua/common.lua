-- What scripts on the queue of a crawl have in common, and the keys that they work on.
--
-- KEYS[1] is the prefix of the crawl's keys. A site is its hosts without their "www.": it has one owner at a time, and
-- only that worker leases its urls.
--
-- meta              hash: what was asked for, `format` of these keys, `id`; `filter`: set or bloom; `state`: running,
--                   paused, finished or deleting; grace_until
-- counts            hash: queued, done, dead, duplicates (of done), arrival (of the last url; what is none of the others
--                   is leased), "added WORKER": the number of a worker's last addition
-- hosts             hash: the first four by host
-- busy_sites        set: the sites with urls left; autoscalers can read how many those are
-- seen:N            sets of integers, small enough that each takes 8 bytes (64 bits of a url's hash, 14 of them are N)
-- split             set: the N that were full and became sixteen, seen:N/0 to seen:N/15
-- seen              or the Bloom filter
-- redirect_targets  hash: hash of a redirect's target -> hash of the url that is redirected to it
-- s:SITE            set: its queues (host and group) that have urls
-- q:QUEUE:P         list: the urls of one priority, as they came: "arrival task"
-- p:QUEUE           sorted set: the priorities for which there is a list
-- b:QUEUE           sorted set: urls that came back, by their places
-- priorities        hash: group -> its priority; g:GROUP set: its queues
-- waiting           sorted set: site without an owner -> urls left
-- owners            hash: site -> worker; own:WORKER sorted set: its sites -> urls left, those that are leased included
-- draining          hash: site that its owner is about to give up -> worker
-- owned_by          hash: site -> the owner before, and the last one
-- turns:WORKER      sorted set: queue of one of its sites -> place of its first url
-- hungry            sorted set: worker that could do more -> its sites with urls left
-- leases:WORKER     hash: arrival -> number of the request, attempts, priority, queue, task; "reply" -> the number of
--                   its last request for urls, and the arrivals that it got
-- reading           hash: worker -> leases that may take it down just now: they count as attempts where it is gone
-- errors            hash: "stage/kind" -> pages; dead_letters list: the latest hundred, "stage/kind url"
-- lines:WORKER      hash: url -> a finished page's line that no feed has yet
-- learned, throttle hashes: site -> what its next owner is to know (SiteOwnership)
-- workers           sorted set: worker -> its last heartbeat (WorkerHeartbeats)
-- heartbeats        and left, lost: hashes: worker -> its last report; ended hash: worker -> when that was
-- widened           list: urls to which start urls were redirected
-- guests            sorted set: host that workers ask who do not own it -> when they did last (take_turn.lua)
-- guest:HOST        when that began; turn:HOST is there until the host may be asked again: both expire
-- answers, llm:...  hashes: answers of the model, its budget and its limits of all workers
--
-- A place is one number: the priority of the group, the priority, the arrival. A double holds 53 bits exactly; priorities
-- are cut to 6.
local P = KEYS[1] .. ':'
-- A set of more than 512 would take eight times the room; how full one is, is looked at for one url of 16.
local ARRIVALS, PRIORITIES, FULL, GUEST_SECONDS = 2^40, 64, 448, 120
local function now()
  local time = redis.call('TIME')
  return time[1] + time[2] / 1000000
end
local function append(list, values) for _, value in ipairs(values) do list[#list + 1] = value end end
local function clip(priority) return math.max(-1, math.min(PRIORITIES - 2, priority)) + 1 end
local group_priorities = {}
local function place(group, priority, arrival)
  group_priorities[group] = group_priorities[group] or tonumber(redis.call('HGET', P .. 'priorities', group) or '0')
  local first = priority <= -1 and -1 or group_priorities[group]
  return (clip(first) * PRIORITIES + clip(priority)) * ARRIVALS + arrival
end
local function group_of(queue) return string.match(queue, '\n(.*)$') end
local function host_of(queue) return string.match(queue, '^(.-)\n') end
local function site_of(queue) return (string.gsub(host_of(queue), '^www%.', '')) end
-- The worker whose turn the urls of a site are: its owner, unless that one is about to give it up.
local function worker_of(site)
  if redis.call('HEXISTS', P .. 'draining', site) == 1 then return false end
  return redis.call('HGET', P .. 'owners', site)
end
local ADDED = 'added ' .. (ARGV[1] or '')
local NAMES = {'queued', 'done', 'dead', 'duplicates', 'arrival', ADDED}
local known, tallied, left = nil, {}, {}
-- The counts, and the number of the worker's last addition.
local function counts()
  if not known then
    known = {}
    local found = redis.call('HMGET', P .. 'counts', unpack(NAMES))
    for i, name in ipairs(NAMES) do known[name] = tonumber(found[i] or 0) end
  end
  local leased = known.arrival - known.queued - known.done - known.dead
  return {known.queued, leased, known.done, known.dead, known.duplicates}, known[ADDED]
end
local function count(name, queue, by, left_by)
  local field, site = name .. ' ' .. host_of(queue), site_of(queue)
  tallied[field] = (tallied[field] or 0) + by
  if left_by then left[site] = (left[site] or 0) + left_by end
end
-- Writes what was counted, once for each host and site.
local function tally()
  counts()
  local changed = {}
  for field, by in pairs(tallied) do
    redis.call('HINCRBY', P .. 'hosts', field, by)
    local name = string.match(field, '^(%a+) ')
    known[name] = known[name] + by
  end
  for _, name in ipairs(NAMES) do append(changed, {name, string.format('%.0f', known[name])}) end
  redis.call('HSET', P .. 'counts', unpack(changed))
  for site, by in pairs(left) do
    local owner = redis.call('HGET', P .. 'owners', site)
    local total = tonumber(redis.call('ZINCRBY', P .. (owner and 'own:' .. owner or 'waiting'), by, site))
    if total <= 0 or total == by then redis.call(total > 0 and 'SADD' or 'SREM', P .. 'busy_sites', site) end
  end
  tallied, left = {}, {}
end
-- At least so many of a queue, the first ones, if it has them, in order; `back` is how one that came back is kept.
local function entries(queue, most)
  local found, missing = {}, most
  for _, back in ipairs(redis.call('ZRANGE', P .. 'b:' .. queue, 0, most - 1)) do
    local priority, arrival, attempts, task = string.match(back, '^(%-?%d+) (%d+) (%d+) (.*)$')
    found[#found + 1] = {tonumber(priority), tonumber(arrival), attempts, task, back = back}
  end
  for _, priority in ipairs(redis.call('ZRANGE', P .. 'p:' .. queue, 0, -1)) do
    if missing <= 0 then break end
    for _, entry in ipairs(redis.call('LRANGE', P .. 'q:' .. queue .. ':' .. priority, 0, missing - 1)) do
      local arrival, task = string.match(entry, '^(%d+) (.*)$')
      found[#found + 1] = {tonumber(priority), tonumber(arrival), '0', task}
      missing = missing - 1
    end
  end
  table.sort(found, function(a, b) return a[1] < b[1] or (a[1] == b[1] and a[2] < b[2]) end)
  return found
end
-- Puts a queue where its first url is: into the turns of a worker, or out of all. `has_more`: one has come, which need
-- not be the first.
local function place_anew(queue, worker, first, has_more)
  if has_more or not first then
    redis.call(first and 'SADD' or 'SREM', P .. 'g:' .. group_of(queue), queue)
    redis.call(first and 'SADD' or 'SREM', P .. 's:' .. site_of(queue), queue)
  end
  if worker and first then
    local at = place(group_of(queue), first[1], first[2])
    redis.call('ZADD', P .. 'turns:' .. worker, has_more and 'LT' or 'CH', at, queue)
  elseif worker then
    redis.call('ZREM', P .. 'turns:' .. worker, queue)
  end
end
local function bring_back(queue, priority, arrival, attempts, task)
  local entry = table.concat({priority, arrival, attempts, task}, ' ')
  redis.call('ZADD', P .. 'b:' .. queue, clip(tonumber(priority)) * ARRIVALS + arrival, entry)
  place_anew(queue, worker_of(site_of(queue)), {tonumber(priority), tonumber(arrival)}, true)
  count('queued', queue, 1)
end
local function place_all(set)
  for _, queue in ipairs(redis.call('SMEMBERS', P .. set)) do
    place_anew(queue, worker_of(site_of(queue)), entries(queue, 1)[1])
  end
end
-- Of a lease: the number of its request, attempts, priority, queue, task.
local function read_lease(lease) return string.match(lease or '', '^(%d+)\31(%d+)\31(%-?%d+)\31(.-)\31(.*)$') end
-- Ends a worker's leases ("arrival number"), which are some of the arguments. Returns for each its arrival, attempts,
-- priority, queue and task where it is that worker's still: a command that was on its way for long may name one whose
-- url was leased again since.
local function end_leases(worker, from, step)
  local arrivals, numbers, ended, found = {}, {}, {}, {}
  for i = from, #ARGV, step do
    arrivals[#arrivals + 1], numbers[#numbers + 1] = string.match(ARGV[i], '^(%d+) (%d+)$')
  end
  for i, lease in ipairs(redis.call('HMGET', P .. 'leases:' .. worker, unpack(arrivals))) do
    local number, attempts, priority, queue, task = read_lease(lease)
    found[i] = number == numbers[i] and {arrivals[i], attempts, priority, queue, task}
    if found[i] then ended[#ended + 1] = arrivals[i] end
  end
  if #ended > 0 then redis.call('HDEL', P .. 'leases:' .. worker, unpack(ended)) end
  return found
end
local has_split
local function is_new(bucket, key)
  if META[3] == 'bloom' then return redis.call('BF.ADD', P .. 'seen', bucket .. ':' .. key) == 1 end
  if has_split == nil then has_split = redis.call('EXISTS', P .. 'split') == 1 end
  local name, rest = bucket, tonumber(key)
  while has_split and redis.call('SISMEMBER', P .. 'split', name) == 1 do
    name, rest = name .. '/' .. rest % 16, math.floor(rest / 16)
  end
  if redis.call('SADD', P .. 'seen:' .. name, rest) == 0 then return false end
  if rest % 16 == 0 and redis.call('SCARD', P .. 'seen:' .. name) >= FULL then
    for _, member in ipairs(redis.call('SMEMBERS', P .. 'seen:' .. name)) do
      redis.call('SADD', P .. 'seen:' .. name .. '/' .. tonumber(member) % 16, math.floor(tonumber(member) / 16))
    end
    redis.call('DEL', P .. 'seen:' .. name)
    redis.call('SADD', P .. 'split', name)
    has_split = true
  end
  return true
end
local function own(site, worker)
  local before = string.match(redis.call('HGET', P .. 'owned_by', site) or '', '\31(.*)$') or ''
  redis.call('HSET', P .. 'owned_by', site, before .. '\31' .. worker)
  redis.call('HSET', P .. 'owners', site, worker)
  redis.call('ZADD', P .. 'own:' .. worker, redis.call('ZSCORE', P .. 'waiting', site) or 0, site)
  redis.call('ZREM', P .. 'waiting', site)
  redis.call('ZREM', P .. 'hungry', worker)
  place_all('s:' .. site)
end
local function end_turns(worker, site)
  for _, queue in ipairs(redis.call('SMEMBERS', P .. 's:' .. site)) do
    redis.call('ZREM', P .. 'turns:' .. worker, queue)
  end
end
-- Takes a site, or all, from their owner: all that is out of them comes back, and is counted.
local function free(worker, only)
  local freed, reading = 0, ',' .. (redis.call('HGET', P .. 'reading', worker) or '') .. ','
  for _, site in ipairs(only and {only} or redis.call('ZRANGE', P .. 'own:' .. worker, 0, -1)) do
    end_turns(worker, site)
    redis.call('HDEL', P .. 'owners', site)
    redis.call('HDEL', P .. 'draining', site)
    local urls = tonumber(redis.call('ZSCORE', P .. 'own:' .. worker, site) or '0')
    redis.call('ZREM', P .. 'own:' .. worker, site)
    if urls > 0 then redis.call('ZADD', P .. 'waiting', urls, site) end
  end
  local leases = redis.call('HGETALL', P .. 'leases:' .. worker)
  for i = 1, #leases, 2 do
    local number, attempts, priority, queue, task = read_lease(leases[i + 1])
    if number and (not only or site_of(queue) == only) then
      local has_begun = string.find(reading, ',' .. leases[i] .. ' ' .. number .. ',', 1, true)
      redis.call('HDEL', P .. 'leases:' .. worker, leases[i])
      bring_back(queue, priority, leases[i], attempts + (has_begun and 1 or 0), task)
      freed = freed + 1
    end
  end
  if not only then
    redis.call('DEL', P .. 'turns:' .. worker, P .. 'leases:' .. worker)
    redis.call('ZREM', P .. 'hungry', worker)
    redis.call('HDEL', P .. 'reading', worker)
  end
  tally()
  return freed
end
local function sites_at_work(worker) return redis.call('ZCOUNT', P .. 'own:' .. worker, 1, '+inf') end
