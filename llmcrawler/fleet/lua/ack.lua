-- worker, its last addition, then for each url: lease, what it is (1: dead, 2: a duplicate, else 0), its error
-- ("stage/kind", or ""), its line to be kept (or ""), url. Nothing is acknowledged where that addition is lost, as links
-- of these urls may be lost with it.
-- include common
if select(2, counts()) < tonumber(ARGV[2]) then return {counts(), false} end
local done = {}
for n, lease in ipairs(end_leases(ARGV[1], 3, 5)) do
  local kind, error, line, url = unpack(ARGV, 5 * n - 1, 5 * n + 2)
  if lease then
    count(kind == '1' and 'dead' or 'done', lease[4], 1, -1)
    if kind == '2' then count('duplicates', lease[4], 1) end
    if error ~= '' then redis.call('HINCRBY', P .. 'errors', error, 1) end
    if kind == '1' then
      redis.call('LPUSH', P .. 'dead_letters', error .. ' ' .. url)
      redis.call('LTRIM', P .. 'dead_letters', 0, 99)
    end
    if line ~= '' then redis.call('HSET', P .. 'lines:' .. ARGV[1], url, line) end
  end
  done[n] = lease and 1 or 0
end
tally()
return {counts(), done}
