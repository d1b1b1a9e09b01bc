-- name of the call, tokens
local name = KEYS[1] .. ':llm:tokens'
if redis.call('HEXISTS', name, ARGV[1]) == 1 then redis.call('HSET', name, ARGV[1], ARGV[2]) end
