-- Appends a claim, or refreshes the entry of its id.
-- ARGV: 1 the entry from its id on, as if granted; 2 TTL in µs; 3 how long to
-- keep the key, in ms; 4 place in µs, with a "t" before it for a try.
-- Answers the token of a new grant, or a letter and what belongs to it.
local s = redis.call('GET', KEYS[1])
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
if not s or (#s == 11 and string.sub(s, 1, 3) == 'hf1') then
	-- Nobody is there. What follows the helpers says the same, more slowly.
	local token = now
	if s then
		local newest = struct.unpack('<d', s, 4)
		if newest >= now then token = newest + 1 end
	end
	local n = struct.unpack('<H', ARGV[1], 76)
	redis.call('SET', KEYS[1], struct.pack('<c3dddd', 'hf1', token + n - 1, token, now, now + ARGV[2]) .. ARGV[1], 'PX', ARGV[3])
	return token
end
--@ queue.lua
-- Refuses a claim whose entry is own, or which is behind all.
local function refused(own)
	local ahead = {}
	for _, e in ipairs(q) do
		if e == own then break end
		ahead[#ahead + 1] = e
	end
	return done('R' .. obstacles(ahead))
end

local own = find(string.sub(ARGV[1], 1, 32))
local try, place = string.match(ARGV[4], '^(t?)(%d+)$')
if own then
	-- Looked for before anything is dropped: an expired hold asked for again
	-- is lost, never a second entry.
	if own.broken ~= '' or own.expires <= now then
		settle(own.id)
		return done('L' .. own.broken)
	end
	if not own.granted then push(own, place) end
	settle(own.id)
	if not own.granted then return refused(own) end
	push(own, ARGV[2])
	return give('G' .. told(own))
end
settle('')
local new = parse(struct.pack('<ddd', 0, 0, 0) .. ARGV[1], 1)
if #q > 0 and q[1].limit ~= new.limit then
	return done('M' .. string.format('%.0f', q[1].limit))
end
local room = waiting == 0 and not upgrading and held + new.weight <= new.limit
if try ~= '' and not room then return refused(nil) end
q[#q + 1] = new
wrote, added = true, true --mutant:redis-ask-adds
if room then
	grant(new)
	push(new, ARGV[2])
	return give(new.token)
end
new.granted, new.raw = false, nil
push(new, place)
return refused(new)
