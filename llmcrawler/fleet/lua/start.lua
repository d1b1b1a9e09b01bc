-- worker, lease ("arrival number of the request"), by how many to count its attempts up; 0 sets them to none
-- include common
local arrival = held_by(ARGV[1], ARGV[2])
if not arrival then return 0 end
if ARGV[3] == '0' then return redis.call('HDEL', P .. 'attempts', arrival) end
return redis.call('HINCRBY', P .. 'attempts', arrival, ARGV[3])
