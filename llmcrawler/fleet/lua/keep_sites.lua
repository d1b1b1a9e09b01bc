-- worker, then for each site: its name, what was learned of it and how its hosts are to be treated ("": as before)
-- include common
for i = 2, #ARGV, 3 do
  if redis.call('HGET', P .. 'owners', ARGV[i]) == ARGV[1] then
    if ARGV[i + 1] ~= '' then redis.call('HSET', P .. 'learned', ARGV[i], ARGV[i + 1]) end
    if ARGV[i + 2] ~= '' then redis.call('HSET', P .. 'throttle', ARGV[i], now() .. ' ' .. ARGV[i + 2]) end
  end
end
