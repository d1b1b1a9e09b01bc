-- KEYS[2] tells this crawl from another of its name, which may have begun in a server that came back empty: the
-- prefix, a colon and the crawl's identity, if it is known.
if #KEYS[2] > #KEYS[1] + 1 and redis.call('HGET', KEYS[1] .. ':meta', 'id') ~= string.sub(KEYS[2], #KEYS[1] + 2) then
  return redis.error_reply('NOCRAWL it is not here any more')
end
