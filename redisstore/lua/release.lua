-- Gives a hold back, or with token 0 whatever the id has.
-- ARGV: 1 id; 2 token.
local s = redis.call('GET', KEYS[1])
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
if s and #s >= 113 and string.sub(s, 1, 3) == 'hf1' then
	-- Nobody else is there, and nothing stays in the way. What follows the
	-- helpers says the same, more slowly.
	local token, since, expires, id, keep, owner, broken = struct.unpack('<dddc32dHB', s, 12)
	if #s == 113 + owner + broken and id == ARGV[1] and token == tonumber(ARGV[2]) and expires > now and since + keep <= now then
		redis.call('SET', KEYS[1], string.sub(s, 1, 11), 'KEEPTTL')
		return 1
	end
end
--@ queue.lua
local token = tonumber(ARGV[2])
if token == 0 then
	local e = find(ARGV[1])
	if e and e.expires > now then leave(e) end
	settle(ARGV[1])
	return done(1)
end
local e, lost = hold(ARGV[1], token)
if e then
	e.shown = true
	leave(e)
end
settle(ARGV[1])
return done(lost or 1)
