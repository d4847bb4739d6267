-- Returns what an ask would, and writes nothing. ARGV as in ask.lua.
-- Returns 'P', the newest token drawn, and the answer of the ask; 'N' for
-- a new grant, whose token is not drawn.
local s = redis.call('MGET', KEYS[1])[1]
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
--@ queue.lua
local newest = last
call = function() end
done = function(answer)
	if type(answer) == 'number' then answer = 'N' end
	return 'P' .. struct.pack('<d', newest) .. answer
end
--@ claim.lua
