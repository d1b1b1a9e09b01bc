-- worker, site
-- include common
if redis.call('HGET', P .. 'owners', ARGV[2]) ~= ARGV[1] then return end
free(ARGV[2], ARGV[1])
tally()
