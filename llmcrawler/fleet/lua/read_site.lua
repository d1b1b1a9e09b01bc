-- site. Returns what was learned, its throttle state with its age in seconds, the owner before, and the number of a
-- site that nothing was learned of.
-- include common
local learned = redis.call('HGET', P .. 'learned', ARGV[1])
local at, throttle = string.match(redis.call('HGET', P .. 'throttle', ARGV[1]) or '', '^(%S+) (.*)$')
local before = string.match(redis.call('HGET', P .. 'owned_by', ARGV[1]) or '', '^(.-)\31')
local number = learned and 0 or redis.call('HINCRBY', P .. 'meta', 'sites', 1) - 1
return {learned, throttle or '', tostring(at and now() - at or 0), before or '', number}
