local name = KEYS[1] .. ':llm:spent'
redis.call('HINCRBY', name, 'tokens', ARGV[1])
redis.call('HINCRBYFLOAT', name, 'cost_usd', ARGV[2])
