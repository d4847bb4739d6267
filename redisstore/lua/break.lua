-- Marks a hold as broken, or frees it.
-- ARGV: 1 id; 2 token, or any of the hold's block, or its upgrade token; 3 reason, as it is stored;
-- 4 "now" to free it.
local s = redis.call('MGET', KEYS[1])[1]
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
--@ queue.lua
announces = true -- it is rare --mutant:redis-break-announced
local e = find(ARGV[1])
local token = tonumber(ARGV[2])
local its = e and e.granted and not e.freed and ends(e) > now and --mutant:redis-freed-broken-twice
	((token == e.fence and token ~= 0) or (e.token <= token and token < e.token + e.n))
if not its then
	settle(ARGV[1])
	return done('L')
end
e.reason, e.why, e.keep, e.want = ARGV[3], '', 0, e.weight
if ARGV[4] == 'now' then
	e.delay = 0
	if e.expires > now then free(e) else drop(e) end --mutant:redis-freed-dropped
else
	keep(e)
end
settle(ARGV[1])
return done(1)
