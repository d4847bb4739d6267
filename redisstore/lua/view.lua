-- Returns the server's time in µs, and what is stored: a hash as the equal string, and an entry
-- that a session keeps as it would be without the session.
-- Writes nothing.
local s = redis.call('MGET', KEYS[1])[1]
local t = redis.call('TIME')
--@ session.lua
if s == '' then s = '?' end -- it is not in our form
if s and string.sub(s, 1, 3) == 'hf3' then
	local p = 12
	while p + 101 <= #s do
		local owner, broken = struct.unpack('<HB', s, p + 64)
		if string.byte(s, p + 101) == 7 then
			local x = session(string.sub(s, p + 16, p + 23)) or struct.unpack('<d', s, p + 8)
			s = string.sub(s, 1, p + 15) .. struct.pack('<d', x) .. string.sub(s, p + 24, p + 100) .. '\3' .. string.sub(s, p + 102)
		end
		p = p + 102 + owner + broken
	end
end
if not s then
	local v = redis.pcall('HGETALL', KEYS[1])
	if v.err then
		if not string.find(v.err, 'WRONGTYPE', 1, true) then return v end
		v = { '', '' }
	end
	local head, all, ok, freed = '', {}, true, ''
	for i = 1, #v, 2 do
		if v[i] == 'h' then head = v[i + 1] end
		if v[i] == 'x' then freed = v[i + 1] end
		if #v[i] == 32 then
			all[#all + 1] = v[i + 1]
			ok = ok and #v[i + 1] >= 110
		end
	end
	while #freed > 0 and ok do
		local owner, reason = 0, 0
		if #freed >= 110 then owner, reason = struct.unpack('<HB', freed, 73) end
		local size = 110 + owner + reason
		ok, all[#all + 1], freed = #freed >= size, string.sub(freed, 1, size), string.sub(freed, size + 1)
	end
	if string.sub(head, 1, 3) ~= 'hf3' then all = {} elseif #head < 57 or not ok then head, all = '?', {} end
	table.sort(all, function(a, b) return struct.unpack('<d', a) < struct.unpack('<d', b) end)
	for i, e in ipairs(all) do all[i] = string.sub(e, 9) end
	s = #v > 0 and string.sub(head .. '?', 1, 11) .. table.concat(all)
end
return struct.pack('<d', t[1] * 1000000 + t[2]) .. (s or '')
