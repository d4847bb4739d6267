-- The rule of package queue, and the stored form. Before it: s is the string
-- that is stored, or false, and now is the server's time in µs.
--
-- What is read and written does not grow with the queue: an entry is found by
-- its id, and what has to be known of the others (how many are ahead, whose end
-- is first, who is next) by a tree over their order.
local FAN, FEW = FANOUT, FEWEST -- children of a node; the most entries of a string
local NODE = '<' .. string.rep('d', FAN) .. string.rep('I4', FAN)
local HEAD = '<c3dI4dI4I4dddBB'
local FIXED = '<dddc32dHBddI4I4I4I4HB'
local NEVER = math.huge

local last, limit, held, granted, n = 0, 0, 0, 0, 0 -- newest token; weight and number of holds; number of entries
local first = NEVER -- the earliest end of an entry
local tail, levels = 0, 1 -- the next place in the order, and the height of the tree
local covered = 0 -- up to when the key is known to live, less RETENTION
local upgrader = '' -- the id of the hold that wants more
local big = false -- it is kept as a hash
local wrote, added, longer, freed, woken = false, false, false, false, {}
local entries, ids, nodes, unread = {}, {}, {}, {} -- by id, by place, by field: what was read; nodes as they came
local changed, dirty, gone = {}, {}, {} -- entries, nodes, fields

local function damaged() error('holdfast: damaged', 0) end

local function parse(s, p)
	local flags, owner, broken, e = nil, nil, nil, {}
	e.token, e.since, e.expires, e.id, e.keep, owner, broken, e.delay, e.fence,
		e.limit, e.weight, e.want, e.turn, e.n, flags, p = struct.unpack(FIXED, s, p)
	local after = p + owner + broken
	if after > #s + 1 or flags > 3 then damaged() end
	e.owner = string.sub(s, p, p + owner - 1)
	e.broken = string.sub(s, p + owner, after - 1)
	e.granted, e.shown = flags % 2 == 1, flags >= 2
	-- What of it is in granted and held.
	e.ones, e.heavy = 0, 0
	if e.granted then e.ones, e.heavy = 1, e.weight end
	return e, after
end

local function raw(e)
	local flags = 0
	if e.granted then flags = 1 end
	if e.shown then flags = flags + 2 end
	return struct.pack(FIXED, e.token, e.since, e.expires, e.id, e.keep, #e.owner, #e.broken, e.delay, e.fence,
		e.limit, e.weight, e.want, e.turn, e.n, flags) .. e.owner .. e.broken
end

-- The instant at which e is out of the way, unless it is renewed.
local function ends(e)
	if not e.granted then return e.expires end
	local x = e.expires + e.delay
	if e.shown and e.since + e.keep > x then x = e.since + e.keep end
	return x
end

-- A stored entry of a hash: its place, then as in a string.
local function unpacked(v)
	if #v < 110 then damaged() end
	local e, after = parse(v, 9)
	if after ~= #v + 1 then damaged() end
	e.place = struct.unpack('<d', v)
	entries[e.id], ids[e.place] = e, e.id
	return e
end

-- The node of a level, 0 that of the entries: of each child the earliest end,
-- then of each how many there are.
local function node(l, i)
	local f = 't' .. l .. ':' .. i
	local t = nodes[f]
	if not t then
		local v = unread[f]
		if v == nil then v = big and redis.call('HMGET', KEYS[1], f)[1] end
		t = {}
		if v then
			if #v ~= 12 * FAN then damaged() end
			t = { struct.unpack(NODE, v) }
		else
			for j = 1, FAN do t[j], t[FAN + j] = NEVER, 0 end
		end
		t.f, nodes[f] = f, t
	end
	return t
end

-- Reads the nodes above a place at once.
local function path(place)
	local some = {}
	for l = 0, levels - 1 do
		place = math.floor(place / FAN)
		local f = 't' .. l .. ':' .. place
		if not nodes[f] and unread[f] == nil then some[#some + 1] = f end
	end
	if #some == 0 then return end
	local v = redis.call('HMGET', KEYS[1], unpack(some))
	for j, f in ipairs(some) do unread[f] = v[j] end
end

local function mark(t)
	if not t.dirty then t.dirty, dirty[#dirty + 1] = true, t end
end

-- Has the entry at the place end at x; c is 0 if there is none any more.
local function set(place, x, c)
	if big then path(place) end
	for l = 0, levels - 1 do
		local i = math.floor(place / FAN)
		local j, t = place - i * FAN + 1, node(l, i)
		if t[j] == x and t[FAN + j] == c then return end -- so nothing is different above
		t[j], t[FAN + j] = x, c
		mark(t)
		x, c = NEVER, 0
		for j = 1, FAN do
			if t[j] < x then x = t[j] end
			c = c + t[FAN + j]
		end
		place = i
	end
	first, n = x, c
end

-- The earliest end of those whose place is below one, and how many they are.
local function ahead(l, i, below)
	local t, x, c = node(l, i), NEVER, 0
	local wide = FAN ^ l
	for j = 1, FAN do
		local from = (i * FAN + j - 1) * wide
		if from >= below then break end
		local y, some = t[j], t[FAN + j]
		if some > 0 and from + wide > below then y, some = ahead(l - 1, i * FAN + j - 1, below) end
		if y < x then x = y end
		c = c + some
	end
	return x, c
end

-- The place of the k-th entry.
local function nth(k)
	local i = 0
	for l = levels - 1, 0, -1 do
		local t, j = node(l, i), 1
		while k > t[FAN + j] do
			k, j = k - t[FAN + j], j + 1
			if j > FAN then damaged() end
		end
		i = i * FAN + j - 1
	end
	return i
end

-- The place of an entry that is over, if first is past.
local function over()
	local i = 0
	for l = levels - 1, 0, -1 do
		local t, j = node(l, i), 1
		while t[j] > now do
			j = j + 1
			if j > FAN then damaged() end
		end
		i = i * FAN + j - 1
	end
	return i
end

local function find(id)
	local e = entries[id]
	if e == nil then
		local v = big and redis.call('HMGET', KEYS[1], id)[1]
		e = v and unpacked(v)
		entries[id] = e
	end
	return e or nil
end

local function at(place)
	return find(ids[place] or redis.call('HMGET', KEYS[1], '#' .. place)[1] or damaged()) or damaged()
end

if s then
	if string.sub(s, 1, 2) ~= 'hf' or #s < 11 then return 'C' end
	if string.sub(s, 3, 3) ~= '2' then return 'V' .. string.sub(s, 3, 3) end
	local ok = pcall(function()
		last = struct.unpack('<d', s, 4)
		local p, t = 12, node(0, 0)
		while p <= #s do
			local e
			e, p = parse(s, p)
			local x = ends(e)
			e.place, entries[e.id], ids[tail], limit = tail, e, e.id, e.limit
			tail, n = tail + 1, n + 1
			t[tail], t[FAN + tail] = x, 1
			granted, held = granted + e.ones, held + e.heavy
			if x < first then first = x end
			if e.granted and e.want > e.weight then upgrader = e.id end
			if tail > FEW then error() end
		end
	end)
	if not ok then return 'C' end
else
	local id = string.sub(ARGV[1], 1, 32)
	local v = redis.pcall('HMGET', KEYS[1], 'h', id)
	if v.err then
		if string.find(v.err, 'WRONGTYPE', 1, true) then return 'C' end
		return v
	end
	if v[1] then
		if string.sub(v[1], 1, 2) ~= 'hf' or #v[1] < 3 then return 'C' end
		if string.sub(v[1], 3, 3) ~= '2' then return 'V' .. string.sub(v[1], 3, 3) end
		local ok = pcall(function()
			local _, wants, p
			_, last, limit, held, granted, n, tail, first, covered, levels, wants, p = struct.unpack(HEAD, v[1])
			upgrader = string.sub(v[1], p, p + wants - 1)
		end)
		if not ok then return 'C' end
		big = true
		entries[id] = v[2] and unpacked(v[2])
	elseif redis.call('EXISTS', KEYS[1]) == 1 then
		return 'C'
	end
end

-- Has all that is kept of the whole follow from e, which was changed.
local function keep(e)
	local ones, heavy = 0, 0
	if e.granted then ones, heavy = 1, e.weight end
	granted, held = granted + ones - e.ones, held + heavy - e.heavy
	if heavy < e.heavy then freed = true end
	e.ones, e.heavy = ones, heavy
	if e.granted and e.want > e.weight then
		upgrader = e.id
	elseif upgrader == e.id then
		upgrader, freed = '', true
	end
	local x = ends(e)
	if x > covered then covered, longer = x + 60000000, true end -- not each time
	set(e.place, x, 1)
	if not e.changed then e.changed, changed[#changed + 1] = true, e end
	wrote = true
end

local function drop(e)
	granted, held = granted - e.ones, held - e.heavy
	if upgrader == e.id then upgrader = '' end
	set(e.place, NEVER, 0)
	gone[#gone + 1], gone[#gone + 2] = e.id, '#' .. e.place
	entries[e.id], ids[e.place], e.dropped = false, nil, true
	wrote, freed = true, true
end

-- Puts a new entry behind all.
local function add(e)
	if tail == FAN ^ levels then
		local t = node(levels, 0)
		t[1], t[FAN + 1] = first, n
		mark(t)
		levels = levels + 1
	end
	e.place, e.ones, e.heavy, e.moved = tail, 0, 0, true
	entries[e.id], ids[tail] = e, e.id
	tail, limit, added = tail + 1, e.limit, true --mutant:redis-ask-adds
	keep(e)
end

local function rename(e, id)
	gone[#gone + 1] = e.id
	if upgrader == e.id then upgrader = id end
	entries[e.id], entries[id], ids[e.place] = false, e, id
	e.id, e.moved = id, true
end

-- Makes e expire not before µs from now.
local function push(e, us)
	if now + us > e.expires then
		e.expires = now + us
		keep(e)
	end
end

-- Draws n tokens and returns the first.
local function draw(n)
	local token = last + 1
	if now > token then token = now end
	last, wrote = token + n - 1, true
	return token
end

local function grant(e)
	if e.n == 0 then e.n = 1 end
	e.granted, e.since, e.token = true, now, draw(e.n)
end

local function wake(e, token) woken[#woken + 1] = { id = e.id, token = token } end

-- The hold with a pending upgrade, or nil.
local function upgrading()
	local e = upgrader ~= '' and find(upgrader)
	if e and e.expires > now then return e end
end

-- Drops what is over and gives room in order. A grant of the entry of self is
-- no one else's news. Who is next has not fitted since anything came free, nor
-- does now.
local function settle(self)
	while first <= now do drop(at(over())) end
	local e = upgrading()
	if e then -- before all that wait
		if held - e.weight + e.want > limit then return end
		e.weight, e.fence = e.want, draw(1)
		keep(e)
		if e.id ~= self then wake(e, '0') end
	elseif upgrader == '' and not freed then
		return
	end
	while granted < n do
		e = at(nth(granted + 1))
		if held + e.weight > limit then break end
		grant(e)
		keep(e)
		if e.id ~= self then
			local token = string.format('%.0f', e.token)
			if e.n > 1 then token = token .. '+' .. e.n end
			wake(e, token)
		end
	end
	freed = false
end

--@ save.lua

-- Writes what was changed to the hash. A string becomes one: the first write is
-- one that a full server refuses.
local function scatter()
	if not big then
		redis.call('SET', KEYS[1], s, 'KEEPTTL')
		redis.call('DEL', KEYS[1])
		changed, longer = {}, true
		for place = 0, tail - 1 do
			local e = ids[place] and entries[ids[place]]
			if e then
				changed[#changed + 1], e.moved = e, true
				covered = math.max(covered, ends(e))
			end
		end
		for _, t in pairs(nodes) do mark(t) end
		gone = {}
	end
	local ms = string.format('%.0f', RETENTION + math.ceil((covered - now) / 1000))
	local out = { 'h', struct.pack(HEAD, 'hf2', last, limit, held, granted, n, tail, first, covered, levels, #upgrader) .. upgrader }
	local function put(field, value)
		out[#out + 1], out[#out + 2] = field, value
		if #out > 500 then
			save(added, ms, 'HSET', KEYS[1], unpack(out))
			out = {}
		end
	end
	for _, e in ipairs(changed) do
		if not e.dropped then
			put(e.id, struct.pack('<d', e.place) .. raw(e))
			if e.moved then put('#' .. e.place, e.id) end
		end
	end
	for _, t in ipairs(dirty) do
		local some = 0
		for j = 1, FAN do some = some + t[FAN + j] end
		if some > 0 then
			put(t.f, struct.pack(NODE, unpack(t, 1, 2 * FAN)))
		else
			gone[#gone + 1] = t.f
		end
	end
	if #out > 0 then save(added, ms, 'HSET', KEYS[1], unpack(out)) end
	for j = 1, #gone, 500 do redis.call('HDEL', KEYS[1], unpack(gone, j, math.min(j + 499, #gone))) end
	if longer then redis.call('PEXPIRE', KEYS[1], ms) end
end

-- Stores what was changed (RETENTION is how long the token outlives the last
-- entry, in ms), wakes those who were granted, and answers.
local function done(answer)
	if wrote and (n == 0 or not big and n <= FEW) then
		local out, left = { struct.pack('<c3d', 'hf2', last) }, 0
		if n == 0 then tail = 0 end
		for place = 0, tail - 1 do
			local e = ids[place] and entries[ids[place]]
			if e then
				out[#out + 1] = raw(e)
				if ends(e) - now > left then left = ends(e) - now end
			end
		end
		local ms = RETENTION + math.ceil(left / 1000) --mutant:redis-retention
		save(added, ms, 'SET', KEYS[1], table.concat(out), 'PX', string.format('%.0f', ms))
	elseif wrote then
		scatter()
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

-- What a refusal tells of those below a place, but for the hold own.
local function obstacles(below, own)
	local holding = granted
	if own then
		set(own.place, NEVER, 0)
		holding = holding - 1
	end
	local x, c = first, n
	if below < tail then x, c = ahead(levels - 1, 0, below) end
	if own then set(own.place, ends(own), 1) end
	-- Its want keeps more out than its weight, and ends sooner.
	local e = upgrading()
	if e and e ~= own and e.expires < x then x = e.expires end
	local left = 0
	if c > 0 then left = x - now end
	local some, fields, of, out = {}, {}, {}, {}
	for k = 1, granted do
		local place = nth(k)
		if not own or place ~= own.place then some[#some + 1] = place end
		if #some == 8 then break end
	end
	for _, place in ipairs(some) do
		if not ids[place] then fields[#fields + 1], of[#of + 1] = '#' .. place, place end
	end
	if #fields > 0 then
		for j, id in ipairs(redis.call('HMGET', KEYS[1], unpack(fields))) do ids[of[j]] = id or damaged() end
	end
	fields, of = {}, {}
	for j, place in ipairs(some) do
		e = entries[ids[place]]
		out[j] = e and raw(e)
		if not e then fields[#fields + 1], of[#of + 1] = ids[place], j end
	end
	if #fields > 0 then
		for j, v in ipairs(redis.call('HMGET', KEYS[1], unpack(fields))) do out[of[j]] = string.sub(v or damaged(), 9) end
	end
	return struct.pack('<dddI4I4', now, last, left, holding, c - holding) .. table.concat(out)
end

-- Ends e for its owner: it goes, unless it is a hold whose token was shown and
-- whose minimum hold is not over. There is no lock delay then.
local function leave(e)
	e.expires, e.delay = now, 0
	if ends(e) > now then keep(e) else drop(e) end
end
