-- Pushes the expiry of a hold forward, and keeps what else its owner tells.
-- ARGV: 1 id; 2 token; 3 TTL in µs; 4 the newest token used of its block, or 0;
-- 5 another id; 6 another owner; both empty if there is none.
-- Answers 'H' and how the hold stands.
local s = redis.call('MGET', KEYS[1])[1]
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
--@ queue.lua
local id = ARGV[1]
if ARGV[5] ~= '' and find(ARGV[5]) then id = ARGV[5] end -- done before: the reply was lost
local e, lost = sound(id, tonumber(ARGV[2]))
if e then
	if now + ARGV[3] > e.expires then e.expires = now + ARGV[3] end
	local used = ARGV[4] - e.token
	if used > 0 and used < e.n and used > e.turn then e.turn = used end
	if ARGV[5] ~= '' and id ~= ARGV[5] then
		id = ARGV[5]
		rename(e, id)
	end
	if ARGV[6] ~= '' then e.owner = ARGV[6] end
	e.shown = true
	keep(e)
end
settle(id)
if e then return give('H' .. told(e)) end
return done(lost)
