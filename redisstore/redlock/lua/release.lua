-- Releases a hold; or, with "any", all that the id has that was asked for with no newer
-- number than the given one.
-- ARGV: 1 id; 2 token, or the newest number; 3 the newest token used of its
-- block, or 0, or "any"; 4 not empty: all that was asked for before, too;
-- 5 "announce" as in ask.lua.
-- Returns '1', or 'A' or 'L' as hold does.
local s = redis.call('GET', KEYS[1])
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
if s and #s >= 109 and string.sub(s, 1, 3) == 'hl1' then
	-- No other entry is there, and nothing of the hold stays. The code behind the
	-- helpers does the same, more slowly.
	local since, expires, order, p, id, keep, owner, broken = struct.unpack('<ddddc32dHB', s, 12)
	if #s == 109 + owner + broken and id == ARGV[1] and p == tonumber(ARGV[2]) and expires > now
		and since + keep <= now and ARGV[3] ~= 'any' and string.byte(s, 109) >= 4 then
		local head = string.sub(s, 1, 11)
		if ARGV[3] ~= '0' then
			local used, after = tonumber(ARGV[3]), p + struct.unpack('<H', s, 107)
			if used >= p and used < after and struct.unpack('<d', s, 4) == after - 1 then
				head = struct.pack('<c3d', 'hl1', used)
			end
		end
		local answer = redis.pcall('SET', KEYS[1], head, 'KEEPTTL') --mutant:redlock-release-alone
		if not answer.err then -- otherwise save handles the error
			if ARGV[5] == 'announce' then redis.pcall('PUBLISH', KEYS[1], '') end --mutant:redlock-lone-release-announced
			return '1'
		end
	end
end
--@ node.lua
announces = ARGV[5] == 'announce' --mutant:redlock-release-announced
local p = tonumber(ARGV[2])
if ARGV[3] == 'any' then
	local e = find(ARGV[1])
	if e and e.expires > now
		and e.p <= p --mutant:redlock-release-newer
	then
		e.shown = false -- never used: there is no minimum hold
		leave(e)
	end
	settle(ARGV[1])
	return done('1')
end
local e, lost = hold(ARGV[1], p)
if e then
	local used, after = tonumber(ARGV[3]), e.p + e.n
	if used >= e.p and used < after - 1 and last == after - 1 then
		last, e.n = used, used - e.p + 1
	end
	e.shown = true
	leave(e)
elseif ARGV[4] ~= '' then
	-- An older ask of the same claim, or a repair, that never became a vote.
	local own = find(ARGV[1])
	if own and own.p <= p and own.expires > now and not broken(own) and not (own.accepted and own.p == p) then leave(own) end
end
settle(ARGV[1])
return done(lost or '1')
