-- worker, number of this request, limit, per_host, worst or "", JSON of held by host, max_pages or "".
-- Returns the counts, and what is leased: (arrival, attempts, queue, priority, task), flat. A request that comes again,
-- as its reply was lost, gets the same; one that was overtaken by a later one gets nothing. The worker's share of the
-- sites that wait is claimed, and one more where there would be no url.
-- include common
-- The pages that are left under max_pages.
local function pages_left(most)
  local known = counts()
  local taken = known[2] + known[3] - math.min(known[5], most) + math.max(0, known[4] - most)
  return most - taken
end

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
if ARGV[7] ~= '' then limit = math.min(limit, pages_left(tonumber(ARGV[7]))) end
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
      redis.call('HSET', P .. 'leases', arrival, table.concat(lease, '\31'))
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
