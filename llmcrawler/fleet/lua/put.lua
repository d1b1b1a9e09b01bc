-- name of a hash, then its fields and their values
redis.call('HSET', KEYS[1] .. ':' .. ARGV[1], unpack(ARGV, 2))
