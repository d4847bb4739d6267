-- The order of many entries, in the fields of a hash: "h", the head; for each
-- entry its id, and "#" and its place, whose value is the id; "x", the freed holds; and
-- "t", level, ":" and number for each node of a tree over the places. A node has the earliest end
-- below each child, then the number of entries below each, then the number of those that ask the
-- holders to give up.
local scatter, unpacked, spared

local function tree(head)
	local FAN = FANOUT -- children of a node
	local NODE = '<' .. string.rep('d', FAN) .. string.rep('I4', 2 * FAN)
	local HEAD = '<c3dI4dI4I4dddBB'
	local ids, nodes, unread, dirty = {}, {}, {}, {} -- ids by place; nodes by field: parsed, as read, and those that were changed
	local tail, levels = 0, 1 -- the next place, and the height
	local asking = 0 -- how many ask the holders to give up
	local covered, longer = 0, false -- until when the key lives, without RETENTION; whether that must be extended

	unpacked = function(v)
		if #v < 110 then damaged() end
		local e, after = parse(v, 9)
		if after ~= #v + 1 or e.session then damaged() end
		e.place = struct.unpack('<d', v)
		e.over, e.asked = ends(e), asks(e) and 1 or 0
		entries[e.id], ids[e.place] = e, e.id
		return e
	end

	-- The freed holds.
	spared = function(v)
		local p = 1
		while p <= #v do
			if #v - p < 109 then damaged() end
			local place, e = struct.unpack('<d', v, p)
			e, p = parse(v, p + 8)
			e.place, e.ones, e.heavy, e.entered, e.freed = place, 0, 0, 0, true
			entries[e.id], freed[#freed + 1] = e, e
		end
	end

	local function node(l, i)
		local f = 't' .. l .. ':' .. i
		local t = nodes[f]
		if not t then
			local v = unread[f]
			if v == nil then v = big and redis.call('HMGET', KEYS[1], f)[1] end
			if v then
				if #v ~= 16 * FAN then damaged() end
				t = { struct.unpack(NODE, v) }
			else
				t = {}
				for j = 1, FAN do t[j], t[FAN + j], t[2 * FAN + j] = NEVER, 0, 0 end
			end
			t.f, nodes[f] = f, t
		end
		return t
	end

	-- Reads all nodes above a place in one call.
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

	find = function(id)
		local e = entries[id]
		if e == nil then
			local v = big and redis.call('HMGET', KEYS[1], id)[1]
			e = v and unpacked(v)
			entries[id] = e
		end
		return e or nil
	end

	-- Reads the ids at some places in one call.
	local function learn(places)
		local fields, of = {}, {}
		for _, p in ipairs(places) do
			if not ids[p] then fields[#fields + 1], of[#of + 1] = '#' .. p, p end
		end
		if #fields == 0 then return end
		for j, id in ipairs(redis.call('HMGET', KEYS[1], unpack(fields))) do ids[of[j]] = id or damaged() end
	end

	-- The same for entries.
	local function fetch(places)
		learn(places)
		local fields = {}
		for _, p in ipairs(places) do
			if entries[ids[p]] == nil then fields[#fields + 1] = ids[p] end
		end
		if #fields == 0 then return end
		for _, v in ipairs(redis.call('HMGET', KEYS[1], unpack(fields))) do unpacked(v or damaged()) end
	end

	set = function(e, x)
		local c, a, place = 1, 0, e.place
		if x < NEVER and asks(e) then a = 1 end
		if x == e.over and a == e.asked then return end
		if x == NEVER then c = 0 elseif x > covered then covered, longer = x + 60000000, true end -- so that this is not needed each time
		if big and not nodes['t0:' .. math.floor(place / FAN)] then path(place) end
		e.over, e.asked = x, a
		for l = 0, levels - 1 do
			local i = math.floor(place / FAN)
			local j, t = place - i * FAN + 1, node(l, i)
			if t[j] == x and t[FAN + j] == c and t[2 * FAN + j] == a then return end -- nothing above changes
			t[j], t[FAN + j], t[2 * FAN + j] = x, c, a --mutant:redis-tree-counts
			mark(t)
			x, c, a = NEVER, 0, 0
			for k = 1, FAN do
				if t[k] < x then x = t[k] end
				c, a = c + t[FAN + k], a + t[2 * FAN + k]
			end
			place = i
		end
		first, n, asking = x, c, a
	end

	append = function(e)
		if tail == FAN ^ levels then
			local t = node(levels, 0)
			t[1], t[FAN + 1], t[2 * FAN + 1] = first, n, asking --mutant:redis-tree-grows-with-who-asks
			mark(t)
			levels = levels + 1 --mutant:redis-tree-grows
		end
		e.place, e.moved, ids[tail] = tail, true, e.id
		tail = tail + 1
	end

	local function below(l, i, place)
		local t, x, c = node(l, i), NEVER, 0
		local wide = FAN ^ l
		for j = 1, FAN do
			local from = (i * FAN + j - 1) * wide
			if from >= place then break end
			local y, some = t[j], t[FAN + j]
			if some > 0 and from + wide > place then y, some = below(l - 1, i * FAN + j - 1, place) end --mutant:redis-tree-ahead
			if y < x then x = y end
			c = c + some
		end
		return x, c
	end

	ahead = function(e) return below(levels - 1, 0, e.place) end

	-- The place of the k-th entry, or of the k-th that asks, by the numbers that begin there in a node.
	local function place(k, from)
		local i = 0
		for l = levels - 1, 0, -1 do
			local t, j = node(l, i), 1
			while k > t[from + j] do
				k, j = k - t[from + j], j + 1
				if j > FAN then damaged() end
			end
			i = i * FAN + j - 1
		end
		return i
	end

	nth = function(k, some)
		local p = place(k, FAN)
		if not ids[p] or entries[ids[p]] == nil then
			local places = { p }
			for j = k + 1, math.min(k + some - 1, n) do places[#places + 1] = place(j, FAN) end
			fetch(places)
		end
		return entries[ids[p]] or damaged()
	end

	local function due(l, i, places)
		local t = node(l, i)
		for j = 1, FAN do
			local p = i * FAN + j - 1
			if t[j] <= now and #places < 100 then
				if l == 0 then places[#places + 1] = p else due(l - 1, p, places) end
			end
		end
	end

	over = function()
		local places, out = {}, {}
		due(levels - 1, 0, places)
		fetch(places)
		for j, p in ipairs(places) do out[j] = entries[ids[p]] or damaged() end
		if #out == 0 then damaged() end
		return out
	end

	holders = function(own)
		local places, fields, of, out = {}, {}, {}, {}
		for k = 1, granted do
			local p = place(k, FAN)
			if not own or p ~= own.place then places[#places + 1] = p end
			if #places == 8 then break end
		end
		learn(places)
		for j, p in ipairs(places) do
			local e = entries[ids[p]]
			out[j] = e and raw(e)
			if not e then fields[#fields + 1], of[#of + 1] = ids[p], j end
		end
		if #fields > 0 then
			for j, v in ipairs(redis.call('HMGET', KEYS[1], unpack(fields))) do
				if not v or #v < 110 then damaged() end
				out[of[j]] = string.sub(v, 9)
			end
		end
		return table.concat(out)
	end

	holds = function()
		local out = {}
		for k = 1, granted, 500 do --mutant:redis-all-holders-asked
			local places = {}
			for j = k, math.min(k + 499, granted) do places[#places + 1] = place(j, FAN) end
			fetch(places)
			for _, p in ipairs(places) do out[#out + 1] = entries[ids[p]] or damaged() end
		end
		return out
	end

	asked = function()
		if asking == 0 then return '' end
		local p = place(1, 2 * FAN) --mutant:redis-tree-first-that-asks
		fetch({ p })
		return entries[ids[p]].why
	end

	-- Writes the changes.
	scatter = function()
		local ms = string.format('%.0f', RETENTION + math.ceil((covered - now) / 1000))
		local head = struct.pack(HEAD, 'hf3', last, asking, held, granted, n, tail, first, covered, levels, #upgrader) .. upgrader
		for limit, c in pairs(limits) do head = head .. struct.pack('<I4I4I4', limit, c[1], c[2]) end
		local out = { 'h', head }
		local function put(field, value)
			out[#out + 1], out[#out + 2] = field, value
			if #out > 500 then
				save(added, ms, 'HSET', KEYS[1], unpack(out))
				out = {}
			end
		end
		for _, e in ipairs(changed) do
			if e.over < NEVER then
				put(e.id, struct.pack('<d', e.place) .. raw(e))
				if e.moved then put('#' .. e.place, e.id) end
			else
				gone[#gone + 1], gone[#gone + 2] = e.id, '#' .. e.place
			end
		end
		if freed.changed then --mutant:redis-freed-in-hash
			local rest = {}
			for _, e in ipairs(freed) do
				if e.freed then rest[#rest + 1] = struct.pack('<d', e.place) .. raw(e) end
			end
			if #rest > 0 then put('x', table.concat(rest)) else gone[#gone + 1] = 'x' end --mutant:redis-freed-goes-from-hash
		end
		for _, t in ipairs(dirty) do
			local some = 0
			for j = 1, FAN do some = some + t[FAN + j] end
			if some > 0 then
				put(t.f, struct.pack(NODE, unpack(t, 1, 3 * FAN)))
			else
				gone[#gone + 1] = t.f
			end
		end
		if #out > 0 then save(added, ms, 'HSET', KEYS[1], unpack(out)) end
		for j = 1, #gone, 500 do redis.call('HDEL', KEYS[1], unpack(gone, j, math.min(j + 499, #gone))) end
		if longer then redis.call('PEXPIRE', KEYS[1], ms) end --mutant:redis-hash-kept
	end

	if head then
		local ok = pcall(function()
			local _, wants, p
			_, last, asking, held, granted, n, tail, first, covered, levels, wants, p = struct.unpack(HEAD, head)
			upgrader = string.sub(head, p, p + wants - 1)
			for at = p + wants, #head, 12 do
				local limit, some, ones = struct.unpack('<I4I4I4', head, at)
				limits[limit] = { some, ones }
			end
		end)
		if not ok then damaged() end
		return
	end
	-- The string becomes a hash. A full server refuses the first write.
	redis.call('SET', KEYS[1], s, 'KEEPTTL') --mutant:redis-grows-refused
	redis.call('DEL', KEYS[1])
	changed, gone, first, n = {}, {}, NEVER, 0
	for _, e in ipairs(line) do
		if e.over < NEVER then
			local x = e.over
			if e.session then e.raw, e.session = false, false end --mutant:redis-hash-without-sessions
			changed[#changed + 1], e.over = e, NEVER
			append(e)
			set(e, x)
		elseif e.freed then
			append(e) --mutant:redis-freed-has-place
			covered, freed.changed = math.max(covered, ends(e)), true
		end
	end
end
