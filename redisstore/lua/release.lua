-- Releases a hold, or with token 0 all that the id has.
-- ARGV: 1 id; 2 token; 3 the newest token used of its block, or 0; 4 "announce" as in ask.lua.
local s = redis.call('MGET', KEYS[1])[1]
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
if s and #s >= 113 and string.sub(s, 1, 3) == 'hf3' then
	-- No other entry is there, and nothing of the hold stays. The code behind the helpers does the same, more slowly.
	local token, since, expires, id, keep, owner, reason = struct.unpack('<dddc32dHB', s, 12)
	local flags = string.byte(s, 113)
	if #s == 113 + owner and reason == 0 and id == ARGV[1] and token == tonumber(ARGV[2]) and since + keep <= now and (flags < 4 or flags == 7) then --mutant:redis-freed-released-alone
		if flags == 7 then
--@ session.lua
			expires = session(string.sub(s, 28, 35)) or since --mutant:redis-release-of-a-session
		end
		local head = string.sub(s, 1, 11)
		if ARGV[3] ~= '0' then
			local used, after = tonumber(ARGV[3]), token + struct.unpack('<H', s, 111)
			if used >= token and used < after and struct.unpack('<d', s, 4) == after - 1 then
				head = struct.pack('<c3d', 'hf3', used)
			end
		end
		if expires > now then
			local answer = redis.pcall('SET', KEYS[1], head, 'PX', RETENTION) --mutant:redis-release-alone
			if not answer.err then -- otherwise save handles the error
				if ARGV[4] == 'announce' then redis.pcall('PUBLISH', KEYS[1], '') end --mutant:redis-lone-release-announced
				return 1
			end
		end
	end
end
--@ queue.lua
announces = ARGV[4] == 'announce' --mutant:redis-release-announced
local token = tonumber(ARGV[2])
if token == 0 then
	local e = find(ARGV[1])
	if e and e.expires > now then
		e.shown = false -- never used: there is no minimum hold
		leave(e)
	end
	settle(ARGV[1])
	return done(1)
end
local e, answer = hold(ARGV[1], token)
if e and e.freed then --mutant:redis-freed-given-back
	answer = lost(e) -- its owner knows
	drop(e)
elseif e then
	local used, after = tonumber(ARGV[3]), e.token + e.n
	if used >= e.token and used < after - 1 and last == after - 1 then
		last, e.n = used, used - e.token + 1
	end
	e.shown = true
	leave(e)
end
settle(ARGV[1])
return done(answer or 1)
