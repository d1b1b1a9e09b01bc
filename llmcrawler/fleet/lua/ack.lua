-- worker, its last addition, then for each url: lease, what it is (1: dead, 2: a duplicate, else 0), its error
-- ("stage/kind", or ""), its line to be kept (or ""), url. Nothing is acknowledged where that addition is lost, as links
-- of these urls may be lost with it.
-- include common
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
