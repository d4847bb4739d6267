-- Renews the holds of some names with one write, that of their session, or moves
-- holds into a new session. A hold must be alone on its name and have nothing new
-- to store; for any other the answer is 'x', and nothing is done.
-- KEYS: 1 the session; then the names.
-- ARGV: 1 the session's id, 8 bytes; 2 TTL in µs; 3 0 to renew, or how many holds
-- a new session must keep at least; then for each name: id, token and newest token
-- used (float64 each), owner.
-- Returns 'H', and for each name 'H' and the state of the hold, or 'x'; or 'L' if the
-- session has ended, or is too old.
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
--@ session.lua
--@ save.lua
local stored, least = redis.call('MGET', unpack(KEYS)), tonumber(ARGV[3])
local x, latest = now + ARGV[2], now + LIFE * 1000
if least == 0 then
	local old
	old, latest = lasts(stored[1])
	if not old or old <= now or x > latest then return 'L' end --mutant:redis-session-ended
	x = math.max(x, old) --mutant:redis-session-shrinks
elseif stored[1] then
	return 'L'
else
	session('\0\0\0\0\0\0\0\0') -- may scripts of names read it? --mutant:redis-session-readable
end

-- The state of the hold of a name, if the session keeps it or can, and what must
-- be stored for that.
local function kept(key, s, a)
	if not s then return end -- it was forgotten, or is a hash --mutant:redis-session-names-read
	if #s < 113 or string.sub(s, 1, 3) ~= 'hf3' then return end
	local last, token, since, expires, id, keep, owner, broken, delay, fence, limit, weight, want, turn, n, flags = struct.unpack('<ddddc32dHBddI4I4I4I4HB', s, 4)
	local its, first, used, from = struct.unpack('<c32dd', a)
	-- Another entry is there, or the hold is gone.
	if #s ~= 113 + owner or id ~= its or token ~= first then return end --mutant:redis-session-of-whom
	if broken > 0 or want ~= weight or used - token > turn then return end
	if from <= #a and string.sub(a, from) ~= string.sub(s, 114) then return end
	local stands = 'H' .. struct.pack('<dddI4I4H', last, token, fence, weight, want, n)
	local by = string.sub(s, 28, 35)
	if least == 0 then
		if flags ~= 7 or by ~= ARGV[1] then return end --mutant:redis-session-of-its-own
		return stands
	end
	if flags == 7 then expires = session(by) or 0 end
	if flags % 2 == 0 or expires <= now or expires > x or delay > LIFE * 1000 then return end --mutant:redis-gathers-what-lives
	local ms = RETENTION + math.ceil((math.max(latest + delay, since + keep) - now) / 1000) --mutant:redis-name-kept-for-session
	return stands, { 'SET', key, string.sub(s, 1, 27) .. ARGV[1] .. string.sub(s, 36, 112) .. '\7' .. string.sub(s, 114), 'PX', string.format('%.0f', ms) }
end

local out, writes = { 'H' }, {}
for i = 2, #KEYS do
	out[i], writes[#writes + 1] = kept(KEYS[i], stored[i], ARGV[i + 2])
	if not out[i] then out[i] = 'x' end
end
if #writes < least then return 'H' .. string.rep('x', #KEYS - 1) end
local ms = string.format('%.0f', math.ceil((latest - now) / 1000) + LIFE)
save(least > 0, ms, 'SET', KEYS[1], struct.pack('<c3dd', 'hs1', x, latest), 'PX', ms)
for _, w in ipairs(writes) do redis.call(unpack(w)) end
return table.concat(out)
