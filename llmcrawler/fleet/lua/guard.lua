-- KEYS[2] tells this crawl from another of its name, which may have begun in a server that came back empty: the
-- prefix, a colon and the crawl's identity, if it is known.
local META = redis.call('HMGET', KEYS[1] .. ':meta', 'id', 'state', 'filter', 'grace_until')
if #KEYS[2] > #KEYS[1] + 1 and META[1] ~= string.sub(KEYS[2], #KEYS[1] + 2) then
  return redis.error_reply('NOCRAWL it is not here any more')
end
