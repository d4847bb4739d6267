-- Pushes the expiry of a hold forward, and keeps what else its owner tells.
-- ARGV: 1 id; 2 token; 3 TTL in µs; 4 the newest token used of its block, or 0;
-- 5 another id; 6 another owner; both empty if there is none.
-- Answers 'H' and how the hold stands.
local s = redis.call('GET', KEYS[1])
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
--@ queue.lua
local id = ARGV[1]
if ARGV[5] ~= '' and find(ARGV[5]) then id = ARGV[5] end -- done before: the reply was lost
local e, lost = sound(id, tonumber(ARGV[2]))
if e then
	if not e.shown then e.shown, e.raw = true, nil end
	push(e, ARGV[3])
	local used = ARGV[4] - e.token
	if used > 0 and used < e.n and used > e.turn then e.turn, e.raw = used, nil end
	if ARGV[5] ~= '' then id, e.id, e.raw = ARGV[5], ARGV[5], nil end
	if ARGV[6] ~= '' then e.owner, e.raw = ARGV[6], nil end
end
settle(id)
if e then return give('H' .. told(e)) end
return done(lost)
