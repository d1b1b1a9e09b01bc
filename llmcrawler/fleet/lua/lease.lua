-- worker, number of this request, limit, per_host, worst or "", JSON of held by host, max_pages or "".
-- Returns the counts, what is leased: (arrival, attempts, queue, priority, task), flat, and whether the worker could do
-- more. A request that comes again, as its reply was lost, gets the same; one that was overtaken by a later one gets
-- nothing. The worker's share of the sites that wait is claimed, and one more where there would be no url.
-- include common
local worker, number, limit, per_host = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local worst, held, leases = tonumber(ARGV[5]), cjson.decode(ARGV[6]), P .. 'leases:' .. worker
local leased, reply, values = {}, ARGV[2], {}
local last = redis.call('HGET', leases, 'reply') or '0'
local last_number = tonumber(string.match(last, '^%d+'))
if number <= last_number then
  for arrival in string.gmatch(number == last_number and last or '', ' (%d+)') do
    local _, attempts, priority, queue, task = read_lease(redis.call('HGET', leases, arrival))
    if queue then append(leased, {tonumber(arrival), attempts, queue, tonumber(priority), task}) end
  end
  return {counts(), leased, 0}
end
if META[2] == 'paused' or not redis.call('ZSCORE', P .. 'workers', worker) then return {counts(), leased, 0} end
if ARGV[7] ~= '' then
  local most, known = tonumber(ARGV[7]), counts()
  local taken = known[2] + known[3] - math.min(known[5], most) + math.max(0, known[4] - most)
  limit = math.min(limit, most - taken)
end
local waiting = redis.call('ZCARD', P .. 'waiting')
local function claim()
  local site = waiting > 0 and redis.call('ZREVRANGE', P .. 'waiting', 0, 0)[1]
  if site then own(site, worker) waiting = waiting - 1 end
  return site
end
if waiting > 0 then
  local share = math.ceil(redis.call('SCARD', P .. 'busy_sites') / redis.call('ZCARD', P .. 'workers'))
  for _ = 1, math.min(limit, share - sites_at_work(worker)) do claim() end
end
-- The turns that were looked at; all whose places are up to `horizon` are among them.
local turns, from, horizon, has_claimed = {}, 0, -1, false
while limit > 0 do
  local first
  for _, turn in ipairs(turns) do
    if turn.place < (first and first.place or math.huge) and (held[turn.host] or 0) < per_host then first = turn end
  end
  if horizon < math.huge and not (first and first.place <= horizon) then
    local found = redis.call('ZRANGE', P .. 'turns:' .. worker, from, from + 49, 'WITHSCORES')
    for i = 1, #found, 2 do
      local turn = {queue = found[i], host = host_of(found[i]), place = tonumber(found[i + 1]), taken = 0, popped = {}}
      if (held[turn.host] or 0) < per_host then turns[#turns + 1] = turn end
    end
    from, horizon = from + 50, tonumber(found[100]) or math.huge
  elseif not first or (worst and math.floor(first.place / (PRIORITIES * ARRIVALS)) - 1 > worst) then
    if #leased > 0 or has_claimed or not claim() then break end
    turns, from, horizon, has_claimed = {}, 0, -1, true
  else
    local queue, host = first.queue, first.host
    first.entries = first.entries or entries(queue, math.min(limit, per_host - (held[host] or 0)) + 1)
    first.taken = first.taken + 1
    local entry, following = first.entries[first.taken], first.entries[first.taken + 1]
    local priority, arrival, attempts, task = unpack(entry)
    if entry.back then
      redis.call('ZREM', P .. 'b:' .. queue, entry.back)
    else
      first.popped[priority] = (first.popped[priority] or 0) + 1
    end
    first.place = following and place(group_of(queue), following[1], following[2]) or math.huge
    local name = string.format('%.0f', arrival)
    held[host], limit, reply = (held[host] or 0) + 1, limit - 1, reply .. ' ' .. name
    append(leased, {arrival, attempts, queue, priority, task})
    append(values, {name, table.concat({ARGV[2], attempts, priority, queue, task}, '\31')})
  end
end
for _, turn in ipairs(turns) do
  for priority, many in pairs(turn.popped) do
    local list = P .. 'q:' .. turn.queue .. ':' .. priority
    redis.call('LPOP', list, many)
    if redis.call('EXISTS', list) == 0 then redis.call('ZREM', P .. 'p:' .. turn.queue, priority) end
  end
  if turn.taken > 0 then
    place_anew(turn.queue, worker, turn.entries[turn.taken + 1])
    count('queued', turn.queue, -turn.taken)
  end
end
if #leased > 0 then
  append(values, {'reply', reply})
  redis.call('HSET', leases, unpack(values))
  tally()
end
return {counts(), leased, limit > 0 and waiting == 0 and 1 or 0}
