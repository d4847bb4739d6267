-- Marks a hold as broken, or drops it.
-- ARGV: 1 id; 2 token, or any of the hold's block, or its fence; 3 reason;
-- 4 "now" to drop it.
local s = redis.call('MGET', KEYS[1])[1]
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
--@ queue.lua
local e = find(ARGV[1])
local token = tonumber(ARGV[2])
local its = e and e.granted and ends(e) > now and
	((token == e.fence and token ~= 0) or (e.token <= token and token < e.token + e.n))
if not its then
	settle(ARGV[1])
	return done('L')
end
if ARGV[4] == 'now' then
	drop(e)
else
	e.reason, e.keep, e.want = ARGV[3], 0, e.weight
	keep(e)
end
settle(ARGV[1])
return done(1)
