-- What one node stores for a name, and how it grants. It follows s, the stored
-- string or false, and now, the node's time in µs.
local last, q, wrote, woken, asked = 0, {}, false, {}, {}
local added = false -- an entry was added, which a node without memory may refuse
local news, announces = false, false -- the holders here have changed, or what others see of them; that is published
local FIXED = '<ddddc32dHBdI4I4I4HB'
local FULL = 1073741824 -- the limit of a lock

local function parse(s, p)
	local since, expires, order, number, id, keep, owner, reason, delay, limit, weight, used, n, flags, tail = struct.unpack(FIXED, s, p)
	local text = tail + owner
	local after = text + reason
	if after > #s + 1 or flags > 7 then error('cut off') end
	return {
		since = since, expires = expires, order = order, p = number, id = id, keep = keep, delay = delay, limit = limit, weight = weight,
		used = used, n = n, granted = flags % 2 == 1, shown = flags % 4 >= 2, accepted = flags >= 4,
		reason = reason > 0 and string.sub(s, text, after - 1) or '', -- why it was broken; if it is not accepted, why it asks the holders to give up
		owner = false, from = p, tail = tail, text = text, after = after, s = s, same = true,
	}, after
end

-- The entry as it is stored: as it was read, if it is unchanged.
local function raw(e)
	if e.same then return string.sub(e.s, e.from, e.after - 1) end
	local flags, owner = 0, e.owner or string.sub(e.s, e.tail, e.text - 1)
	if e.granted then flags = 1 end
	if e.shown then flags = flags + 2 end
	if e.accepted then flags = flags + 4 end
	return struct.pack(FIXED, e.since, e.expires, e.order, e.p, e.id, e.keep, #owner, #e.reason, e.delay,
		e.limit, e.weight, e.used, e.n, flags) .. owner .. e.reason
end

local function parseall()
	last = struct.unpack('<d', s, 4)
	local p = 12
	while p <= #s do
		q[#q + 1], p = parse(s, p)
	end
end

if s then
	if string.sub(s, 1, 2) ~= 'hl' or #s < 11 then return 'C' end
	if string.sub(s, 3, 3) ~= '1' then return 'V' .. string.sub(s, 3, 3) end
	if not pcall(parseall) then return 'C' end
else
	-- A lost record must not lower the tokens.
	last = now --mutant:redlock-lost-record
end

local function find(id)
	for i = 1, #q do
		if q[i].id == id then return q[i], i end
	end
end

-- When e stops blocking others, unless it is extended.
local function ends(e)
	if not e.accepted then return e.expires end
	local x = e.expires + e.delay
	if e.shown and e.since + e.keep > x then x = e.since + e.keep end
	return x
end

-- Whether a is served before b; the same on every node.
local function before(a, b)
	if a.order ~= b.order then return a.order < b.order end --mutant:redlock-order
	return a.id < b.id
end

-- Whether an operator has broken the hold.
local function broken(e) return e.accepted and e.reason ~= '' end

-- Inserts e by its order.
local function insert(e)
	local i = #q + 1
	while i > 1 and before(e, q[i - 1]) do i = i - 1 end
	table.insert(q, i, e)
	wrote = true
end

-- Drops expired entries.
local function drop()
	for i = #q, 1, -1 do
		if ends(q[i]) <= now then
			if q[i].accepted then news = true end
			table.remove(q, i)
			wrote = true
		end
	end
end

-- Grants in order. A grant of the entry of self notifies
-- no one.
local function room(self)
	local held, least = 0, FULL
	for i = 1, #q do
		local e = q[i]
		if e.granted then held, least = held + e.weight, math.min(least, e.limit) end --mutant:redlock-least-limit
	end
	for i = 1, #q do
		local e = q[i]
		if not e.granted then
			least = math.min(least, e.limit)
			if held + e.weight > least then break end
			e.granted, e.same = true, false
			held, wrote = held + e.weight, true
			if e.id ~= self then woken[#woken + 1] = e end
		end
	end
end

local function settle(self)
	drop()
	room(self)
end

--@ save.lua

-- Stores the changes, notifies the granted waiters, and returns the answer.
local function done(answer)
	if wrote then
		local out, left = { struct.pack('<c3d', 'hl1', last) }, 0
		for i = 1, #q do
		local e = q[i]
			out[#out + 1] = raw(e)
			local x = ends(e) - now
			if x > left then left = x end
		end
		local ms = string.format('%.0f', 86400000 + math.ceil(left / 1000))
		save(added, ms, 'SET', KEYS[1], table.concat(out), 'PX', ms)
	end
	for i = 1, #woken + #asked do
		local e = woken[i] or asked[i - #woken]
		-- Last, and not fatal: a failing script is not undone, and a waiter
		-- polls anyway.
		redis.pcall('PUBLISH', string.match(KEYS[1], '^[^{]*') .. 'hint:' .. string.sub(e.id, 1, 16),
			string.format('%.0f ', woken[i] and e.p or -asked.by) .. e.id .. ' ' .. KEYS[1])
	end
	if news and announces then redis.pcall('PUBLISH', KEYS[1], '') end --mutant:redlock-announces
	return answer
end

-- The live hold of the id with the token p; or nil and the answer: 'A' if a repair
-- would take nothing from another claim, otherwise 'L', and the reason of a
-- break.
local function hold(id, p)
	local e = find(id)
	if not e then return nil, 'A' end
	if e.p == p and not broken(e) and (not e.accepted or e.expires <= now) then return nil, 'A' end
	if not e.accepted or e.expires <= now
		or e.p ~= p --mutant:redlock-hold-token
	then
		return nil, 'L' .. (broken(e) and e.reason or '')
	end
	return e
end

-- What a refusal reports about the entries that block own, or that would block a new claim.
local function obstacles(own)
	local first, holding, ahead, passed, out = nil, 0, 0, false, {}
	for i = 1, #q do
		local e = q[i]
		if e == own then
			passed = true
		elseif e.granted or not passed then
			local x = ends(e)
			if not first or x < first then first = x end
			if e.granted then
				holding = holding + 1
				if holding <= 8 then table.insert(out, holding, raw(e)) end
			else
				ahead = ahead + 1
				if ahead <= 16 then out[#out + 1] = struct.pack('<dc32', e.order, e.id) end
			end
		end
	end
	local left = 0
	if first then left = first - now end
	return struct.pack('<dddI4I4', now, last, left, holding, ahead) .. table.concat(out)
end

-- Ends e for its owner: drop removes it, unless it is a hold whose token was
-- used and whose minimum hold has not passed. There is no lock delay then.
local function leave(e)
	e.expires, e.delay, e.same = now, 0, false
	wrote = true
	if e.accepted then news = true end --mutant:redlock-minimum-hold-is-news
end
