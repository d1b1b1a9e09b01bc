-- worker, its last heartbeat
-- include common
free(ARGV[1])
redis.call('ZREM', P .. 'workers', ARGV[1])
redis.call('HDEL', P .. 'heartbeats', ARGV[1])
-- Lines that it could not store go to another worker's feed, as if it had died.
if redis.call('EXISTS', P .. 'lines:' .. ARGV[1]) == 1 then redis.call('ZADD', P .. 'workers', 0, ARGV[1]) end
redis.call('HSET', P .. 'left', ARGV[1], ARGV[2])
redis.call('HSET', P .. 'ended', ARGV[1], now())
