-- Returns the node's time in µs and what is stored. Writes nothing.
local s = redis.call('GET', KEYS[1])
local t = redis.call('TIME')
if s == '' then s = '?' end -- it is not in our form
return struct.pack('<d', t[1] * 1000000 + t[2]) .. (s or '')
