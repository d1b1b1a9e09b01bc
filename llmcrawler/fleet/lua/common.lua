-- What scripts on the queue of a crawl have in common, and the keys that they work on.
--
-- KEYS[1] is the prefix of the crawl's keys. A site is its hosts without their "www.": it has one owner at a time, and
-- only that worker leases its urls.
--
-- meta              hash: what was asked for, `format` of these keys, `id`; `filter`: set or bloom; `state`: running,
--                   paused, finished or deleting
-- counts            hash: queued, done, dead, duplicates (of done), arrival (of the last url)
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
-- leases            hash: arrival -> holder, number of its request, priority, queue, task; out:SITE set: arrivals
-- replies           hash: worker -> number of its last request for urls, and the arrivals that it got
-- attempts          hash: arrival -> times that a holder began with it
-- added             hash: worker -> the number of its last addition
-- errors            hash: "stage/kind" -> pages; dead_letters list: the latest hundred, "stage/kind url"
-- lines:WORKER      hash: url -> a finished page's line that no feed has yet
-- learned, throttle hashes: site -> what its next owner is to know (SiteOwnership)
-- workers           sorted set: worker -> its last heartbeat (WorkerHeartbeats); beat_at that of any, grace_until
-- heartbeats        and left, lost: hashes: worker -> its last report; ended hash: worker -> when that was
-- widened           list: urls to which start urls were redirected
-- guests            sorted set: host that workers ask who do not own it -> when they did last (take_turn.lua)
-- guest:HOST        when that began; turn:HOST is there until the host may be asked again: both expire
-- answers, llm:...  hashes: answers of the model, its budget and its limits of all workers
--
-- A place is one number: the priority of the group, the priority, the arrival. A double holds 53 bits exactly; priorities
-- are cut to 6.
local P = KEYS[1] .. ':'
local ARRIVALS, PRIORITIES, FULL, GUEST_SECONDS = 2^40, 64, 512, 120
local function now()
  local time = redis.call('TIME')
  return time[1] + time[2] / 1000000
end
local function clip(priority) return math.max(-1, math.min(PRIORITIES - 2, priority)) + 1 end
local function place(group, priority, arrival)
  local first = priority <= -1 and -1 or tonumber(redis.call('HGET', P .. 'priorities', group) or '0')
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
local tallied, left = {}, {}
local function count(name, queue, by)
  local field = name .. ' ' .. host_of(queue)
  tallied[field] = (tallied[field] or 0) + by
  local site = site_of(queue)
  if name == 'queued' and by > 0 then left[site] = (left[site] or 0) + by end
  if name == 'done' or name == 'dead' then left[site] = (left[site] or 0) - by end
end
-- Writes what was counted, once for each host and site.
local function tally()
  local totals = {}
  for field, by in pairs(tallied) do
    redis.call('HINCRBY', P .. 'hosts', field, by)
    local name = string.match(field, '^(%a+) ')
    totals[name] = (totals[name] or 0) + by
  end
  for name, by in pairs(totals) do redis.call('HINCRBY', P .. 'counts', name, by) end
  for site, by in pairs(left) do
    local owner = redis.call('HGET', P .. 'owners', site)
    local total = tonumber(redis.call('ZINCRBY', P .. (owner and 'own:' .. owner or 'waiting'), by, site))
    redis.call(total > 0 and 'SADD' or 'SREM', P .. 'busy_sites', site)
  end
  tallied, left = {}, {}
end
local function has_head(queue, priority, arrival)
  local group, site = group_of(queue), site_of(queue)
  local worker = worker_of(site)
  if worker then redis.call('ZADD', P .. 'turns:' .. worker, 'LT', place(group, priority, arrival), queue) end
  redis.call('SADD', P .. 'g:' .. group, queue)
  redis.call('SADD', P .. 's:' .. site, queue)
end
local function bring_back(queue, priority, arrival, task)
  redis.call('ZADD', P .. 'b:' .. queue, clip(priority) * ARRIVALS + arrival, priority .. ' ' .. arrival .. ' ' .. task)
  has_head(queue, priority, arrival)
  tallied['queued ' .. host_of(queue)] = (tallied['queued ' .. host_of(queue)] or 0) + 1  -- it was left before
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
  local group, site = group_of(queue), site_of(queue)
  local worker, priority, arrival = worker_of(site), head(queue)
  if not priority then
    redis.call('SREM', P .. 'g:' .. group, queue)
    redis.call('SREM', P .. 's:' .. site, queue)
  end
  if worker and priority then
    redis.call('ZADD', P .. 'turns:' .. worker, place(group, priority, arrival), queue)
  elseif worker then
    redis.call('ZREM', P .. 'turns:' .. worker, queue)
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
  return string.match(lease, '^(.-)\31(%d+)\31(%-?%d+)\31(.-)\31(.*)$')
end
-- The arrival, priority, queue and task of a lease ("arrival number"), where it is that worker's still: a command that
-- was on its way for long may name one whose url was leased again since.
local function held_by(worker, lease)
  local arrival, asked = string.match(lease, '^(%d+) (%d+)$')
  local holder, number, priority, queue, task = holding(arrival)
  if holder == worker and number == asked then return arrival, tonumber(priority), queue, task end
end
local function drop(arrival, queue)
  redis.call('HDEL', P .. 'leases', arrival)
  redis.call('SREM', P .. 'out:' .. site_of(queue), arrival)
end
local function split(name)
  for _, member in ipairs(redis.call('SMEMBERS', P .. 'seen:' .. name)) do
    local key = tonumber(member)
    redis.call('SADD', P .. 'seen:' .. name .. '/' .. key % 16, math.floor(key / 16))
  end
  redis.call('DEL', P .. 'seen:' .. name)
  redis.call('SADD', P .. 'split', name)
end
local has_bloom, has_split
local function is_new(bucket, key)
  if has_bloom == nil then
    has_bloom = redis.call('HGET', P .. 'meta', 'filter') == 'bloom'
    has_split = redis.call('EXISTS', P .. 'split') == 1
  end
  if has_bloom then return redis.call('BF.ADD', P .. 'seen', bucket .. ':' .. key) == 1 end
  local name, rest = bucket, tonumber(key)
  while has_split and redis.call('SISMEMBER', P .. 'split', name) == 1 do
    name, rest = name .. '/' .. rest % 16, math.floor(rest / 16)
  end
  if redis.call('SADD', P .. 'seen:' .. name, rest) == 0 then return false end
  if redis.call('SCARD', P .. 'seen:' .. name) >= FULL then
    split(name)
    has_split = true
  end
  return true
end
local function last_added(worker) return tonumber(redis.call('HGET', P .. 'added', worker) or '0') end
local function counts()
  local known = redis.call('HMGET', P .. 'counts', 'queued', 'done', 'dead', 'duplicates')
  for i = 1, 4 do known[i] = tonumber(known[i] or 0) end
  return {known[1], redis.call('HLEN', P .. 'leases'), known[2], known[3], known[4]}
end
local function own(site, worker)
  local before = string.match(redis.call('HGET', P .. 'owned_by', site) or '', '\31(.*)$') or ''
  redis.call('HSET', P .. 'owned_by', site, before .. '\31' .. worker)
  redis.call('HSET', P .. 'owners', site, worker)
  redis.call('ZADD', P .. 'own:' .. worker, redis.call('ZSCORE', P .. 'waiting', site) or 0, site)
  redis.call('ZREM', P .. 'waiting', site)
  for _, queue in ipairs(redis.call('SMEMBERS', P .. 's:' .. site)) do place_anew(queue) end
end
-- Takes a site from its owner: all that is out comes back, and is counted. It is to be tallied.
local function free(site, worker)
  for _, queue in ipairs(redis.call('SMEMBERS', P .. 's:' .. site)) do
    redis.call('ZREM', P .. 'turns:' .. worker, queue)
  end
  redis.call('HDEL', P .. 'owners', site)
  redis.call('HDEL', P .. 'draining', site)
  local urls = tonumber(redis.call('ZSCORE', P .. 'own:' .. worker, site) or '0')
  redis.call('ZREM', P .. 'own:' .. worker, site)
  if urls > 0 then redis.call('ZADD', P .. 'waiting', urls, site) end
  local arrivals = redis.call('SMEMBERS', P .. 'out:' .. site)
  for _, arrival in ipairs(arrivals) do
    local _, _, priority, queue, task = holding(arrival)
    drop(arrival, queue)
    bring_back(queue, tonumber(priority), tonumber(arrival), task)
  end
  return #arrivals
end
local function sites_at_work(worker) return redis.call('ZCOUNT', P .. 'own:' .. worker, 1, '+inf') end
