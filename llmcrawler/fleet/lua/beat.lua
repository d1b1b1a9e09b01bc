-- worker, its heartbeat, seconds until it counts as gone, 1 where it joins, how many urls that widened the scope it has
-- heard of. Returns whether it is a member; the workers that are gone; which of its sites it is to give up; how many
-- workers are silent; the other urls that widened the scope; the hosts that have guests; the counts of the queue; the
-- number of its last addition; whether the crawl is paused. Of a worker with two sites at work more than another one has
-- who could do more, one goes to that one, best of all one that it has not begun with.
-- include common
-- include silence
local worker, seconds, at = ARGV[1], tonumber(ARGV[3]), now()
local is_calm = may_judge(at, seconds)
redis.call('SET', P .. 'beat_at', at)
if ARGV[4] == '0' and not redis.call('ZSCORE', P .. 'workers', worker) then return {0} end
redis.call('ZADD', P .. 'workers', at, worker)
redis.call('HSET', P .. 'heartbeats', worker, ARGV[2])
redis.call('HDEL', P .. 'lost', worker)
local leaving, moving = {}, redis.call('ZCARD', P .. 'waiting')
local drained = redis.call('HGETALL', P .. 'draining')
for i = 1, #drained, 2 do
  moving = moving + 1
  if drained[i + 1] == worker then leaving[#leaving + 1] = drained[i] end
end
local at_work = sites_at_work(worker) - #leaving
local function begin_to_give()
  local chosen
  local sites = redis.call('ZREVRANGE', P .. 'own:' .. worker, 0, 99, 'WITHSCORES')
  for i = 1, #sites, 2 do
    local site, urls = sites[i], tonumber(sites[i + 1])
    if urls > 0 and redis.call('HEXISTS', P .. 'draining', site) == 0 then
      if redis.call('EXISTS', P .. 'out:' .. site) == 0 then chosen = site break end
      if i > 1 and urls >= 20 and not chosen then chosen = site end
    end
  end
  if not chosen then return end
  redis.call('HSET', P .. 'draining', chosen, worker)
  for _, queue in ipairs(redis.call('SMEMBERS', P .. 's:' .. chosen)) do
    redis.call('ZREM', P .. 'turns:' .. worker, queue)
  end
  leaving[#leaving + 1] = chosen
  at_work, moving = at_work - 1, moving + 1
end
local hungry = redis.call('ZRANGE', P .. 'hungry', 0, -1, 'WITHSCORES')
for i = 1, #hungry, 2 do
  if moving < #hungry / 2 and hungry[i] ~= worker and at_work >= hungry[i + 1] + 2 then begin_to_give() end
end
local gone = is_calm and redis.call('ZRANGEBYSCORE', P .. 'workers', '-inf', at - seconds) or {}
local silent = redis.call('ZCOUNT', P .. 'workers', '-inf', at - math.min(5, seconds / 2))
local widening = redis.call('LRANGE', P .. 'widened', ARGV[5], -1)
redis.call('ZREMRANGEBYSCORE', P .. 'guests', '-inf', at - GUEST_SECONDS)
local guests = redis.call('ZRANGE', P .. 'guests', 0, -1)
local is_paused = redis.call('HGET', P .. 'meta', 'state') == 'paused' and 1 or 0
return {1, gone, leaving, silent, widening, guests, counts(), last_added(worker), is_paused}
