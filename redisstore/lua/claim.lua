-- What an ask does, behind queue.lua. ARGV as of ask.lua.
local try, position = string.match(ARGV[4], '^(t?)(%d+)$')
local own = find(string.sub(ARGV[1], 1, 32))
if own then
	-- Looked for before anything is dropped: an expired hold asked for again
	-- is lost, never a second entry.
	if own.broken ~= '' or own.expires <= now then
		settle(own.id)
		return done('L' .. own.broken)
	end
	if not own.granted then push(own, position) end
	settle(own.id)
	if not own.granted then return done('R' .. obstacles(own)) end
	push(own, ARGV[2])
	return give('G' .. told(own))
end
settle('')
local new = parse(struct.pack('<ddd', 0, 0, 0) .. ARGV[1], 1)
if n > 0 and limit ~= new.limit then return done('M' .. string.format('%.0f', limit)) end
local room = granted == n and not upgrading() and held + new.weight <= new.limit
if room then
	grant(new)
	new.expires = now + ARGV[2]
	add(new)
	return give(new.token)
end
if try ~= '' then return done('R' .. obstacles(nil)) end
new.granted, new.expires = false, now + position
add(new)
return done('R' .. obstacles(new))
