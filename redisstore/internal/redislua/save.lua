-- Writes to the key of the name. added says that the value has an entry that was not
-- there before. A server at its maxmemory refuses SET and HSET, except in a script
-- that has written already. PEXPIRE needs no memory and is never refused: so
-- holds can be renewed and released, and nothing new is stored.
local function save(added, ms, ...)
	if not added then
		local answer = redis.pcall(...)
		if type(answer) ~= 'table' or not answer.err then return end
		if string.find(answer.err, 'OOM', 1, true) then redis.pcall('PEXPIRE', KEYS[1], ms) end --mutant:redis-full-renews
	end
	redis.call(...)
end
