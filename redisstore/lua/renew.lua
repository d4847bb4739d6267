-- Extends a hold, and stores what else its owner passes.
-- ARGV: 1 id; 2 token; 3 TTL in µs; 4 the newest token used of its block, or 0;
-- 5 another id; 6 another owner; both empty if there is none; 7 "announce" as in ask.lua.
-- Returns 'H', the state of the hold, and the reason of the first claim that asks the holders to give up:
-- another hold whose upgrade is pending, or a waiter.
local s = redis.call('MGET', KEYS[1])[1]
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
if s and #s >= 113 and string.sub(s, 1, 3) == 'hf3' and string.byte(s, 113) < 4 and ARGV[5] == '' and ARGV[6] == '' then
	-- It is alone, no session keeps it, and nothing else was passed. The code behind the helpers does
	-- the same, more slowly.
	local last, token, since, expires, id, keep, owner, broken, delay, fence, limit, weight, want, turn, n = struct.unpack('<ddddc32dHBddI4I4I4I4H', s, 4)
	if #s == 113 + owner and broken == 0 and id == ARGV[1] and token == tonumber(ARGV[2]) and expires > now and want == weight and tonumber(ARGV[4]) <= token then
		if now + ARGV[3] > expires then expires = now + ARGV[3] end
		local left = math.max(expires + delay, since + keep) - now
		local value = string.sub(s, 1, 27) .. struct.pack('<d', expires) .. string.sub(s, 36, 112) .. '\3' .. string.sub(s, 114)
		local answer = redis.pcall('SET', KEYS[1], value, 'PX', string.format('%.0f', RETENTION + math.ceil(left / 1000))) --mutant:redis-renew-alone
		if not answer.err then return 'H' .. struct.pack('<dddI4I4H', last, token, fence, weight, want, n) end -- otherwise save handles the error
	end
end
--@ queue.lua
announces = ARGV[7] == 'announce'
local id = ARGV[1]
if ARGV[5] ~= '' and find(ARGV[5]) then id = ARGV[5] end -- it was done before, and the reply was lost
local e, lost = sound(id, tonumber(ARGV[2]))
if e then
	if now + ARGV[3] > e.expires then e.expires = now + ARGV[3] end
	local used = ARGV[4] - e.token
	if used > 0 and used < e.n and used > e.turn then e.turn, news = used, true end
	if ARGV[5] ~= '' and id ~= ARGV[5] then
		id = ARGV[5]
		rename(e, id)
	end
	if ARGV[6] ~= '' and ARGV[6] ~= e.owner then
		e.owner = ARGV[6]
		news = true --mutant:redis-note-is-news
	end
	e.shown = true
	keep(e)
end
settle(id)
if not e then return done(lost) end
local up = upgrading() -- it comes before all waiters
if up and up ~= e and up.why ~= '' then return give('H' .. told(e) .. up.why) end --mutant:redis-upgrade-asks-itself
return give('H' .. told(e) .. asked())
