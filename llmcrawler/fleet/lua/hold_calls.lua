local name, at = KEYS[1] .. ':llm:paused_until', redis.call('TIME')[1] + ARGV[1]
if at > tonumber(redis.call('GET', name) or '0') then redis.call('SET', name, at, 'EX', math.ceil(ARGV[1]) + 1) end
