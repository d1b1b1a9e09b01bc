-- worker, its heartbeat, seconds until it counts as gone, 1 where it joins, how many urls that widened the scope it has
-- heard of, whether it could do more. Returns whether it is a member; the workers that are gone; which of its sites
-- it is to give up; how many workers are silent; the other urls that widened the scope; the hosts that have guests;
-- whether anything may wait for it; whether the crawl is paused; the counts of the queue; the number of its last
-- addition. Of a worker with two sites at work more than another one has who could do more, one goes to that one, best
-- of all one that it has not begun with.
-- include common
local worker, seconds, at = ARGV[1], tonumber(ARGV[3]), now()
local is_member, last, silent, gone = ARGV[4] == '1', 0, 0, {}
local members = redis.call('ZRANGE', P .. 'workers', 0, -1, 'WITHSCORES')
for i = 1, #members, 2 do
  local beat_at = tonumber(members[i + 1])
  last = math.max(last, beat_at)
  if members[i] == worker then
    is_member = true
  else
    if beat_at <= at - seconds then gone[#gone + 1] = members[i] end
    if beat_at <= at - math.min(5, seconds / 2) then silent = silent + 1 end
  end
end
-- Where no heartbeat at all came for long, the server itself stood still, and what waited to be said is only now read.
local grace_until = tonumber(META[4] or '0')
if at - last > seconds / 2 then
  grace_until = at + seconds
  redis.call('HSET', P .. 'meta', 'grace_until', grace_until)
end
if grace_until > at then gone = {} end
if not is_member then return {0} end
redis.call('ZADD', P .. 'workers', at, worker)
redis.call('HSET', P .. 'heartbeats', worker, ARGV[2])
if ARGV[4] == '1' then redis.call('HDEL', P .. 'lost', worker) end
local leaving, moving = {}, 0
local drained, is_draining = redis.call('HGETALL', P .. 'draining'), {}
for i = 1, #drained, 2 do
  moving, is_draining[drained[i]] = moving + 1, true
  if drained[i + 1] == worker then leaving[#leaving + 1] = drained[i] end
end
local hungry, is_hungry = redis.call('ZRANGE', P .. 'hungry', 0, -1, 'WITHSCORES'), ARGV[6] == '1'
local has_more = 1
if is_hungry or #hungry > 0 then
  local at_work, waiting = sites_at_work(worker) - #leaving, redis.call('ZCARD', P .. 'waiting')
  moving = moving + waiting
  for i = 1, #hungry, 2 do
    local chosen, has_leases, sites = nil, {}, {}
    if hungry[i] ~= worker and moving < #hungry / 2 and at_work >= hungry[i + 1] + 2 then
      sites = redis.call('ZREVRANGE', P .. 'own:' .. worker, 0, 99, 'WITHSCORES')
      for _, lease in ipairs(redis.call('HVALS', P .. 'leases:' .. worker)) do
        local queue = select(4, read_lease(lease))
        if queue then has_leases[site_of(queue)] = true end
      end
    end
    for n = 1, #sites, 2 do
      local site, urls = sites[n], tonumber(sites[n + 1])
      if urls > 0 and not is_draining[site] then
        if not has_leases[site] then chosen = site break end
        if n > 1 and urls >= 20 and not chosen then chosen = site end
      end
    end
    if chosen then
      redis.call('HSET', P .. 'draining', chosen, worker)
      end_turns(worker, chosen)
      leaving[#leaving + 1], is_draining[chosen] = chosen, true
      at_work, moving = at_work - 1, moving + 1
    end
  end
  if is_hungry and waiting == 0 then has_more = redis.call('EXISTS', P .. 'turns:' .. worker) end
  redis.call('ZREM', P .. 'hungry', worker)
  if is_hungry then redis.call('ZADD', P .. 'hungry', at_work, worker) end
end
local widening = redis.call('LRANGE', P .. 'widened', ARGV[5], -1)
local guests = redis.call('ZRANGEBYSCORE', P .. 'guests', '(' .. at - GUEST_SECONDS, '+inf')
return {1, gone, leaving, silent, widening, guests, has_more, META[2] == 'paused' and 1 or 0, counts()}
