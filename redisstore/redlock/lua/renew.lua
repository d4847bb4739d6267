-- Extends a hold, and stores what else its owner passes.
-- ARGV: 1 id; 2 token; 3 TTL in µs; 4 the newest token used of its block, or 0;
-- 5 another id; 6 another owner; both empty if there is none; 7 "shown", or
-- empty if the owner has not used the token yet; 8 "tell" to return the
-- entry, too; 9 "announce" as in ask.lua.
-- Returns '1'; then the length of the entry and the entry, if it was asked for or a waiter asks the holders to
-- give up, and in that case the order, id and reason of the first that does; or 'A' or 'L' as
-- hold does.
local s = redis.call('GET', KEYS[1])
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
--@ node.lua
announces = ARGV[9] == 'announce'
local id = ARGV[1]
if ARGV[5] ~= '' and find(ARGV[5]) then id = ARGV[5] end -- it was done before, and the reply was lost
local e, lost = hold(id, tonumber(ARGV[2]))
if e and broken(e) then e, lost = nil, 'L' .. e.reason end
if e then
	e.shown, e.same, wrote = e.shown or ARGV[7] ~= '', false, true
	if now + ARGV[3] > e.expires then e.expires = now + ARGV[3] end
	local used = ARGV[4] - e.p
	if used > e.used and used < e.n then e.used, news = used, true end
	if ARGV[6] ~= '' and ARGV[6] ~= string.sub(e.s, e.tail, e.text - 1) then
		e.owner = ARGV[6]
		news = true --mutant:redlock-note-is-news
	end
	if ARGV[5] ~= '' and id ~= ARGV[5] then
		-- The order depends on the id, too.
		local _, i = find(id)
		table.remove(q, i)
		id, e.id = ARGV[5], ARGV[5]
		news = true --mutant:redlock-another-id-is-news
		insert(e)
	end
end
settle(id)
if not e then return done(lost) end
local told, why = ARGV[8] ~= '' and raw(e) or '', ''
for i = 1, #q do
	local o = q[i]
	if not o.accepted and o.reason ~= '' then
		why = struct.pack('<dc32', o.order, o.id) .. o.reason
		break
	end
end
if told == '' and why == '' then return done('1') end
return done('1' .. struct.pack('<H', #told) .. told .. why)
