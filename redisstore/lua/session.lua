-- A session keeps some holds, each of which is alone on its name. It is
-- renewed for all of them at once. It is stored as a string: "hs1", when it ends, and the latest
-- time at which it can ever end. An entry that it keeps has the session's id instead of an expiry.

-- The parts of a stored session; nil if the value is not one.
local function lasts(v)
	if v and #v == 19 and string.sub(v, 1, 3) == 'hs1' then return struct.unpack('<dd', v, 4) end
end

-- When a session ends, and the latest time at which it can; nil if it is missing.
-- In each script the last key is that of a name.
local function session(id)
	local a, b = struct.unpack('>I4I4', id)
	return lasts(redis.call('MGET', string.match(KEYS[#KEYS], '^[^{]*') .. string.format('session:%08x%08x', a, b))[1]) --mutant:redis-session-unreadable
end
