-- worker, site
-- include common
if redis.call('HGET', P .. 'owners', ARGV[2]) == ARGV[1] then free(ARGV[1], ARGV[2]) end
