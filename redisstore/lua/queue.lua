-- The rule of package queue, and the stored form. Before it: s is what is
-- stored, or false, and now is the server's time in µs.
local last, q, wrote, woken = 0, {}, false, {}
local added = false -- an entry: that may be refused for want of memory
local held, waiting, upgrading = 0, 0, nil -- of q, after settle
local FIXED = '<dddc32dHBddI4I4I4I4HB'

local function parse(s, p)
	local from, flags, owner, broken, e = p, nil, nil, nil, {}
	e.token, e.since, e.expires, e.id, e.keep, owner, broken, e.delay, e.fence,
		e.limit, e.weight, e.want, e.turn, e.n, flags, p = struct.unpack(FIXED, s, p)
	local after = p + owner + broken
	if after > #s + 1 or flags > 3 then error('cut off') end
	e.owner = string.sub(s, p, p + owner - 1)
	e.broken = string.sub(s, p + owner, after - 1)
	e.granted, e.shown = flags % 2 == 1, flags >= 2
	e.raw = string.sub(s, from, after - 1) -- until e is changed
	return e, after
end

local function raw(e)
	if not e.raw then
		local flags = 0
		if e.granted then flags = 1 end
		if e.shown then flags = flags + 2 end
		e.raw = struct.pack(FIXED, e.token, e.since, e.expires, e.id, e.keep, #e.owner, #e.broken, e.delay, e.fence,
			e.limit, e.weight, e.want, e.turn, e.n, flags) .. e.owner .. e.broken
	end
	return e.raw
end

local function parseall()
	last = struct.unpack('<d', s, 4)
	local p = 12
	while p <= #s do
		q[#q + 1], p = parse(s, p)
	end
end

if s then
	if string.sub(s, 1, 2) ~= 'hf' or #s < 11 then return 'C' end
	if string.sub(s, 3, 3) ~= '1' then return 'V' .. string.sub(s, 3, 3) end
	if not pcall(parseall) then return 'C' end
end

local function find(id)
	for i, e in ipairs(q) do
		if e.id == id then return e, i end
	end
end

-- The instant at which e is out of the way, unless it is renewed.
local function ends(e)
	if not e.granted then return e.expires end
	local x = e.expires + e.delay
	if e.shown and e.since + e.keep > x then x = e.since + e.keep end
	return x
end

-- Makes e expire not before µs from now.
local function push(e, us)
	if now + us > e.expires then e.expires, e.raw = now + us, nil end
	wrote = true
end

-- Draws n tokens and returns the first.
local function draw(n)
	local first = last + 1
	if now > first then first = now end
	last = first + n - 1
	return first
end

local function grant(e)
	if e.n == 0 then e.n = 1 end
	e.granted, e.since, e.token, e.raw = true, now, draw(e.n), nil
	wrote = true
end

-- Whether an upgrade of e is pending.
local function wants(e) return e.granted and e.want > e.weight and e.expires > now end

-- Drops what is over and gives room in order. A grant of the entry of self is
-- no one else's news.
local function settle(self)
	local kept = {}
	held, waiting, upgrading = 0, 0, nil
	for _, e in ipairs(q) do
		if ends(e) > now then
			kept[#kept + 1] = e
			if e.granted then held = held + e.weight else waiting = waiting + 1 end
			if wants(e) then upgrading = e end
		end
	end
	if #kept < #q then q, wrote = kept, true end
	if upgrading then -- before all that wait
		local e = upgrading
		if held - e.weight + e.want > e.limit then return end
		held, upgrading = held - e.weight + e.want, nil
		e.weight, e.fence, e.raw = e.want, draw(1), nil
		wrote = true
		if e.id ~= self then woken[#woken + 1] = { id = e.id, token = '0' } end
	end
	for _, e in ipairs(q) do
		if waiting == 0 then break end
		if not e.granted then
			if held + e.weight > e.limit then break end
			grant(e)
			held, waiting = held + e.weight, waiting - 1
			if e.id ~= self then
				local token = string.format('%.0f', e.token)
				if e.n > 1 then token = token .. '+' .. e.n end
				woken[#woken + 1] = { id = e.id, token = token }
			end
		end
	end
end

--@ save.lua

-- Stores what was changed (RETENTION is how long the token outlives the last
-- entry, in ms), wakes those who were granted, and answers.
local function done(answer)
	if wrote then
		local out, left = { struct.pack('<c3d', 'hf1', last) }, 0
		for _, e in ipairs(q) do
			out[#out + 1] = raw(e)
			if ends(e) - now > left then left = ends(e) - now end
		end
		local ms = RETENTION + math.ceil(left / 1000) --mutant:redis-retention
		save(table.concat(out), string.format('%.0f', ms), added)
	end
	for _, e in ipairs(woken) do
		-- Last, and not fatal: a script that fails is not undone, and a waiter
		-- looks by itself.
		redis.pcall('PUBLISH', string.match(KEYS[1], '^[^{]*') .. 'hint:' .. string.sub(e.id, 1, 16),
			e.token .. ' ' .. e.id .. ' ' .. KEYS[1])
	end
	return answer
end

-- Answers with what is its owner's from now on, or for longer. That is written
-- even if nothing was changed: WAIT confirms only what its own connection has
-- written.
local function give(answer)
	wrote = true --mutant:redis-give-writes
	return done(answer)
end

-- The live hold of the id and token; or nil, and the answer that it is lost.
local function hold(id, token)
	local e = find(id)
	if not e then return nil, 'L' end
	if not e.granted or e.token ~= token or e.expires <= now then return nil, 'L' .. e.broken end
	return e
end

-- The same, if its owner may go on with it.
local function sound(id, token)
	local e, lost = hold(id, token)
	if e and e.broken ~= '' then return nil, 'L' .. e.broken end
	return e, lost
end

-- How the hold stands, for its owner.
local function told(e)
	return struct.pack('<dddI4I4H', last, e.token, e.fence, e.weight, e.want, e.n)
end

-- What a refusal tells of those ahead.
local function obstacles(ahead)
	local first, holding, before, holders = nil, 0, 0, {}
	for _, e in ipairs(ahead) do
		local x = ends(e)
		-- Its want keeps more out than its weight, and ends sooner.
		if wants(e) and e.expires < x then x = e.expires end
		if not first or x < first then first = x end
		if e.granted then
			holding = holding + 1
			if holding <= 8 then holders[holding] = raw(e) end
		else
			before = before + 1
		end
	end
	local left = 0
	if first then left = first - now end
	return struct.pack('<dddI4I4', now, last, left, holding, before) .. table.concat(holders)
end

-- Ends e for its owner: settle drops it, unless it is a hold whose token was
-- shown and whose minimum hold is not over. There is no lock delay then.
local function leave(e)
	e.expires, e.delay, e.raw = now, 0, nil
	wrote = true
end
