-- The order of few entries: all were read, and are in the table line. tree.lua has the same
-- functions for many.
local find = function(id) return entries[id] or nil end

-- Sets the end of e to x; NEVER: it is removed.
local set = function(e, x)
	e.over, first, n = x, NEVER, 0
	for i = 1, #line do
		local o = line[i]
		if o.over < first then first = o.over end
		if o.over < NEVER then n = n + 1 end
	end
end

local append = function(e) line[#line + 1] = e end

-- The earliest end of the entries ahead of e, and their number.
local ahead = function(e)
	local x, c = NEVER, 0
	for i = 1, #line do
		local o = line[i]
		if o == e then break end
		if o.over < x then x = o.over end
		if o.over < NEVER then c = c + 1 end
	end
	return x, c
end

-- The k-th entry; some after it are needed, too.
local nth = function(k)
	for i = 1, #line do
		if line[i].over < NEVER then k = k - 1 end
		if k == 0 then return line[i] end
	end
end

-- Some expired entries, at least one if first has passed.
local over = function()
	local out = {}
	for i = 1, #line do
		if line[i].over <= now then out[#out + 1] = line[i] end
	end
	return out
end

-- The first holds except own, as stored.
local holders = function(own)
	local out = {}
	for i = 1, #line do
		local e = line[i]
		if e.granted and e ~= own and e.over < NEVER and #out < 8 then out[#out + 1] = seen(e) end
	end
	return table.concat(out)
end

-- All holds.
local holds = function()
	local out = {}
	for i = 1, #line do
		if line[i].granted and line[i].over < NEVER then out[#out + 1] = line[i] end
	end
	return out
end

-- The reason of the first waiter that asks the holders to give up, or the empty string.
local asked = function()
	for i = 1, #line do
		if line[i].over < NEVER and asks(line[i]) then return line[i].why end
	end
	return ''
end

local function load()
	last = struct.unpack('<d', s, 4)
	local p = 12
	while p <= #s do line[#line + 1], p = parse(s, p) end
end

local function enlist()
	for i = 1, #line do
		local e = line[i]
		if e.session then
			local x, latest = session(e.session)
			e.expires = x or e.since -- a lost session keeps nothing
			e.covered = math.max((latest or e.since) + e.delay, e.since + e.keep) --mutant:redis-lost-session-covered
		end
		entries[e.id] = e
		if e.granted and string.byte(e.reason) == 1 then --mutant:redis-freed-in-the-way
			e.ones, e.heavy, e.entered, e.freed, freed[#freed + 1] = 0, 0, 0, true, e
		else
			e.over, n = ends(e), n + 1
			count(e, 1, e.ones)
			granted, held = granted + e.ones, held + e.heavy
			if e.over < first then first = e.over end
			if e.granted and e.want > e.weight then upgrader = e.id end
		end
	end
end

local function write()
	local out, left = { struct.pack('<c3d', 'hf3', last) }, 0
	for i = 1, #line do
		local e = line[i]
		if e.over < NEVER or e.freed then
			out[#out + 1] = raw(e)
			local x = e.over
			if e.freed then x = ends(e) end --mutant:redis-name-kept-for-what-is-freed
			if e.session then x = e.covered end --mutant:redis-name-outlives-session
			if x - now > left then left = x - now end
		end
	end
	local ms = RETENTION + math.ceil(left / 1000) --mutant:redis-retention
	ms = string.format('%.0f', ms)
	save(added, ms, 'SET', KEYS[1], table.concat(out), 'PX', ms)
end
