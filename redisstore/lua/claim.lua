-- An ask, behind queue.lua. ARGV as in ask.lua.
announces = ARGV[6] == 'announce'
local try, position = string.match(ARGV[4], '^(t?)(%d+)$')
local own = find(string.sub(ARGV[1], 1, 32))
if own then
	-- Find it before anything is dropped: an expired hold that is asked for again
	-- is lost, and never gets a second entry.
	if own.granted and own.reason ~= '' or own.expires <= now then
		settle(own.id)
		return done(lost(own))
	end
	local new = false -- whether it begins to ask the holders to give up, or for another reason
	if not own.granted then
		push(own, position)
		new = own.why ~= ARGV[5] --mutant:redis-asked-once
		if new then
			own.why = ARGV[5]
			keep(own)
		end
	end
	settle(own.id)
	if not own.granted then
		if new then call(own) end
		return done('R' .. obstacles(own))
	end
	push(own, ARGV[2])
	return give('G' .. told(own))
end
settle('')
local new = parse(struct.pack('<ddd', 0, 0, 0) .. ARGV[1], 1)
local have = least(1, math.huge)
if n > 0 and have ~= new.limit and (have == FULL or new.limit == FULL) then return done('M' .. string.format('%.0f', have)) end --mutant:redis-lock-beside-semaphore
local room = granted == n and not upgrading() and held + new.weight <= least(2, new.limit) --mutant:redis-comes-under-holders-limits
if room then
	grant(new)
	new.expires = now + ARGV[2]
	add(new)
	return give(new.token)
end
if try ~= '' then return done('R' .. obstacles(nil)) end
new.granted, new.expires, new.why = false, now + position, ARGV[5]
add(new)
call(new)
return done('R' .. obstacles(new))
