-- Stores a value under the key of the name; added is true if it has an entry that
-- was not there before. A server at its maxmemory refuses SET, except in a script
-- that has written already. PEXPIRE needs no memory, and so is never refused: what
-- is held can be renewed and released, and nothing new gets in.
local function save(value, ms, added)
	if not added then
		local answer = redis.pcall('SET', KEYS[1], value, 'PX', ms)
		if not answer.err then return end
		if string.find(answer.err, 'OOM', 1, true) then redis.pcall('PEXPIRE', KEYS[1], ms) end --mutant:redis-full-renews
	end
	redis.call('SET', KEYS[1], value, 'PX', ms)
end
