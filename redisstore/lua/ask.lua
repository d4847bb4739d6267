-- Appends a claim, or refreshes the entry of its id.
-- ARGV: 1 the entry from its id on, as if granted; 2 TTL in µs; 3 how long to
-- keep the key, in ms; 4 how long to keep a queue position, in µs, after a "t" for a try; 5 why it asks
-- the holders to give up, or empty; 6 "announce" if watchers of the name are notified; may be missing.
-- Returns the token of a new grant, or a letter and its data.
local s = redis.call('MGET', KEYS[1])[1] -- false also if it is not a string
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
if s and #s == 11 and string.sub(s, 1, 3) == 'hf3' or not s and redis.call('EXISTS', KEYS[1]) == 0 then
	-- The name is free. The code behind the helpers does the same, more slowly.
	local token = now
	if s then
		local newest = struct.unpack('<d', s, 4)
		if newest >= now then token = newest + 1 end
	end
	local n = struct.unpack('<H', ARGV[1], 76)
	redis.call('SET', KEYS[1], struct.pack('<c3dddd', 'hf3', token + n - 1, token, now, now + ARGV[2]) .. ARGV[1], 'PX', ARGV[3])
	if ARGV[6] == 'announce' then redis.pcall('PUBLISH', KEYS[1], '') end --mutant:redis-free-grant-announced
	return token
end
--@ queue.lua
--@ claim.lua
