-- A session keeps some holds, each alone on its name, until they expire, and is
-- renewed for all of them at once. It is a string: "hs1", when it ends, and the latest
-- that it can ever end. An entry that it keeps has its id in the place of its expiry.

-- What is stored of a session; nil if that is none.
local function lasts(v)
	if v and #v == 19 and string.sub(v, 1, 3) == 'hs1' then return struct.unpack('<dd', v, 4) end
end

-- When the session of an id ends, and the latest that it can; nil if there is none.
-- The last key is a name, in each script.
local function session(id)
	local a, b = struct.unpack('>I4I4', id)
	return lasts(redis.call('MGET', string.match(KEYS[#KEYS], '^[^{]*') .. string.format('session:%08x%08x', a, b))[1]) --mutant:redis-session-unreadable
end
