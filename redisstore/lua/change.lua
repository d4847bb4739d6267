-- Changes the weight of an upgradeable hold.
-- ARGV: 1 id; 2 token; 3 turn; 4 weight; 5 why it asks the others to give up, or empty.
-- Returns 'G' or 'R', the state of the hold, and for a refusal the holds that block it.
local s = redis.call('MGET', KEYS[1])[1]
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
--@ queue.lua
local e, lost = sound(ARGV[1], tonumber(ARGV[2]))
local turn, weight = tonumber(ARGV[3]), tonumber(ARGV[4])
if e and (e.limit ~= 1073741824 or (e.weight ~= 536870913 and e.fence == 0)) then
	e, lost = nil, 'I' -- not granted as upgradeable
end
local new = false -- whether it begins to ask the others to give up, or for another reason
if e and turn > e.turn then -- otherwise it is a copy of a change that was answered before
	e.turn, e.want = turn, weight
	if e.want < e.weight then e.weight = e.want end
	local why = e.want > e.weight and ARGV[5] or ''
	new, e.why = e.why ~= why, why
	keep(e)
end
settle(ARGV[1])
if not e then return done(lost) end
if e.weight == weight then
	return give('G' .. told(e)) --mutant:redis-change-gives
end
if new then call(e) end --mutant:redis-upgrade-asks-unheard
local next = nil
if granted < n then next = nth(granted + 1, 1) end
return done('R' .. told(e) .. obstacles(next, e))
