-- Marks a hold as broken, or drops it.
-- ARGV: 1 id; 2 token, or any of the hold's block; 3 reason; 4 "now" to drop it.
-- Returns '1', or 'A' if there is no such hold.
local s = redis.call('GET', KEYS[1])
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
--@ node.lua
announces = true -- it is rare --mutant:redlock-break-announced
local e, i = find(ARGV[1])
local token = tonumber(ARGV[2])
if not (e and e.accepted and ends(e) > now and e.p <= token and token < e.p + e.n) then
	settle(ARGV[1])
	return done('A')
end
wrote = true
if ARGV[4] == 'now' then
	table.remove(q, i)
	news = true
else
	e.reason, e.keep, e.same = ARGV[3], 0, false
end
settle(ARGV[1])
return done('1')
