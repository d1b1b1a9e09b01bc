-- a url; one that came before does no harm
-- include common
redis.call('RPUSH', P .. 'widened', ARGV[1])
