-- The rule of package queue, and the stored form. It follows s, the stored string
-- or false, and now, the server's time in µs.
--
-- Up to FEW entries are stored as a string, which is read and written whole (line.lua).
-- More are stored as a hash, of which an operation reads and writes only what it needs
-- (tree.lua).
local FEW, NEVER, FULL = FEWEST, math.huge, 1073741824 -- FULL is the limit of a lock
local FIXED = '<dddc32dHBddI4I4I4I4HB'

--@ session.lua
local last, held, granted, n = 0, 0, 0, 0 -- newest token; weight and number of holds; number of entries
local limits = {} -- by limit: how many entries have it, and how many holds
local first = NEVER -- the earliest end of an entry
local upgrader = '' -- the id of the hold that wants more
local big = false -- it is kept as a hash
local wrote, added, room = false, false, false
local news, announces = false, false -- the holders of the name have changed, or what others see of them; that is published
local entries, line = {}, {} -- the entries that were read: by id; those of a string in order
local changed, gone, woken = {}, {}, {}
local freed = { changed = false } -- freed holds: they block nobody, and are in no sum and not in the tree

local function damaged() error('holdfast: damaged', 0) end

local function parse(s, p)
	local token, since, expires, id, keep, owner, reason, delay, fence, limit, weight, want, turn, n, flags, tail = struct.unpack(FIXED, s, p)
	local text = tail + owner
	local after = text + reason
	local said = reason > 0 and string.sub(s, text, after - 1) or ''
	local broken = flags % 2 == 1 and want == weight --mutant:redis-upgrade-asks-as-broken
	if after > #s + 1 or flags > 3 and flags ~= 7 then damaged() end
	local e = {
		token = token, since = since, expires = expires, id = id, keep = keep, delay = delay, fence = fence, limit = limit, weight = weight,
		want = want, turn = turn, n = n, granted = flags % 2 == 1, shown = flags % 4 >= 2, owner = string.sub(s, tail, text - 1),
		reason = broken and said or '', -- why it was broken
		why = not broken and said or '', -- for a waiter, or a hold whose upgrade is pending: why it asks the other holders to give up
		raw = string.sub(s, p, after - 1), -- until it is changed
		session = flags == 7 and string.sub(s, p + 16, p + 23), -- the session that keeps it until it is changed
		covered = 0, -- with a session: the latest end that it may have
		ones = 0, heavy = 0, entered = 1, -- its parts of granted, held and limits
		place = 0, over = NEVER, asked = 0, changed = false, freed = false,
	}
	if e.granted then e.ones, e.heavy = 1, weight end
	return e, after
end

local function raw(e)
	if not e.raw then
		local flags = 0
		if e.granted then flags = 1 end
		if e.shown then flags = flags + 2 end
		local said = e.reason .. e.why -- one of them is empty
		e.raw = struct.pack(FIXED, e.token, e.since, e.expires, e.id, e.keep, #e.owner, #said, e.delay, e.fence,
			e.limit, e.weight, e.want, e.turn, e.n, flags) .. e.owner .. said
	end
	return e.raw
end

-- The same for readers: with the expiry that it has if its session is not renewed.
local function seen(e)
	if not e.session then return raw(e) end
	return string.sub(e.raw, 1, 16) .. struct.pack('<d', e.expires) .. string.sub(e.raw, 25, 101) .. '\3' .. string.sub(e.raw, 103)
end

-- When e stops blocking others, unless it is renewed.
local function ends(e)
	if not e.granted then return e.expires end
	local x = e.expires + e.delay
	if e.shown and e.since + e.keep > x then x = e.since + e.keep end
	return x
end

-- Whether e waits and asks the holders to give up.
local function asks(e) return not e.granted and e.why ~= '' end

-- Counts so many more entries and holds with the limit of e.
local function count(e, some, ones)
	local c = limits[e.limit]
	if not c then
		c = { 0, 0 }
		limits[e.limit] = c
	end
	c[1], c[2] = c[1] + some, c[2] + ones
	if c[1] == 0 then limits[e.limit] = nil end
end

-- The smallest limit of all entries (of is 1) or holds (2); x if that is smaller.
local function least(of, x)
	for limit, c in pairs(limits) do
		if c[of] > 0 and limit < x then x = limit end
	end
	return x
end

--@ save.lua
--@ line.lua
--@ tree.lua
if s then
	if string.sub(s, 1, 2) ~= 'hf' or #s < 11 then return 'C' end
	if string.sub(s, 3, 3) ~= '3' then return 'V' .. string.sub(s, 3, 3) end
	if not pcall(load) then return 'C' end
	enlist()
else
	local v = redis.pcall('HMGET', KEYS[1], 'h', string.sub(ARGV[1], 1, 32), 'x')
	if v.err then
		if string.find(v.err, 'WRONGTYPE', 1, true) then return 'C' end
		return v
	end
	if v[1] then
		if string.sub(v[1], 1, 2) ~= 'hf' or #v[1] < 3 then return 'C' end
		if string.sub(v[1], 3, 3) ~= '3' then return 'V' .. string.sub(v[1], 3, 3) end
		big = true
		tree(v[1])
		if v[3] then spared(v[3]) end
		if v[2] then unpacked(v[2]) end
	elseif redis.call('EXISTS', KEYS[1]) == 1 then
		return 'C'
	end
end

-- Updates all sums after a change of e. It is in no
-- session any more: it has an end of its own, and its owner is notified.
local function keep(e)
	local ones, heavy = 0, 0
	if e.granted then ones, heavy = 1, e.weight end
	granted, held = granted + ones - e.ones, held + heavy - e.heavy
	if heavy < e.heavy then room = true end --mutant:redis-room-freed
	count(e, 1 - e.entered, ones - e.ones)
	e.ones, e.heavy, e.entered, e.raw, e.session = ones, heavy, 1, false, false
	if e.granted and e.want > e.weight then
		upgrader = e.id
	elseif upgrader == e.id then
		upgrader, room = '', true --mutant:redis-upgrade-freed
	end
	set(e, ends(e))
	if not e.changed then e.changed, changed[#changed + 1] = true, e end
	wrote = true
end

local function drop(e)
	granted, held = granted - e.ones, held - e.heavy
	count(e, -e.entered, -e.ones)
	if upgrader == e.id then upgrader = '' end
	if e.granted and not e.freed then news = true end --mutant:redis-release-is-news
	entries[e.id] = false
	set(e, NEVER)
	if not e.changed then e.changed, changed[#changed + 1] = true, e end
	wrote, room = true, true --mutant:redis-drop-freed
	if e.freed then e.freed, freed.changed = false, true end
end

-- Frees a hold that an operator broke. It stays until its owner learns
-- why and releases it, or until it ends: see settle.
local function free(e)
	drop(e)
	e.ones, e.heavy, e.entered, e.raw, e.session, e.freed = 0, 0, 0, false, false, true
	entries[e.id], freed[#freed + 1], freed.changed = e, e, true
end

-- Appends a new entry.
local function add(e)
	e.ones, e.heavy, e.entered, entries[e.id] = 0, 0, 0, e
	added = true --mutant:redis-ask-adds
	append(e)
	keep(e)
end

local function rename(e, id)
	if upgrader == e.id then upgrader = id end
	gone[#gone + 1], entries[e.id], entries[id] = e.id, false, e
	e.id, e.moved, news = id, true, true --mutant:redis-another-id-is-news
end

-- Extends e to µs from now, if it ends earlier.
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
	e.granted, e.why, e.since, e.token = true, '', now, draw(e.n)
	news = true --mutant:redis-grant-is-news
end

local function wake(e, token) woken[#woken + 1] = { id = e.id, token = token } end

-- If e asks the holders to give up, notifies the owners of all other holds:
-- they renew, and learn why.
local call = function(e)
	if e.why == '' then return end
	for _, h in ipairs(holds()) do
		if h ~= e and h.reason == '' and h.expires > now then wake(h, '0') end --mutant:redis-broken-is-asked
	end
end

-- The hold with a pending upgrade, or nil.
local function upgrading()
	local e = upgrader ~= '' and find(upgrader)
	if e and e.expires > now then return e end
end

-- Drops expired entries and grants waiters in order. A grant of the entry of self
-- notifies no one. If nothing came free, the next waiter does not fit, as
-- before.
local function settle(self)
	while first <= now do
		for _, e in ipairs(over()) do drop(e) end
	end
	for _, e in ipairs(freed) do
		if e.freed and ends(e) <= now then drop(e) end --mutant:redis-freed-expires
	end
	local e = upgrading()
	if e then -- before all waiters
		if held - e.weight + e.want > FULL then return end
		e.weight, e.fence, e.why = e.want, draw(1), ''
		keep(e)
		if e.id ~= self then wake(e, '0') end
	elseif upgrader == '' and not room then --mutant:redis-void-upgrade
		return
	end
	local some = 1 -- how many to read at once: more as more are granted
	while granted < n do
		e, some = nth(granted + 1, some), math.min(2 * some, 100)
		if held + e.weight > least(2, e.limit) then break end --mutant:redis-heeds-holders-limits
		grant(e)
		keep(e)
		if e.id ~= self then
			local token = string.format('%.0f', e.token)
			if e.n > 1 then token = token .. '+' .. e.n end
			wake(e, token)
		end
	end
end

-- The freed holds, in the order of the queue.
local function apart()
	local out = {}
	for _, e in ipairs(freed) do
		if e.freed then out[#out + 1] = e end
	end
	table.sort(out, function(a, b) return a.place < b.place end) --mutant:redis-freed-in-order
	return out
end

-- Stores the changes (RETENTION is how long the token outlives the last
-- entry, in ms), notifies the granted waiters, and returns the answer.
local function done(answer)
	if wrote then
		if n == 0 or not big and n <= FEW then
			if big then line = apart() end --mutant:redis-freed-leaves-hash
			write()
		else
			if not big then tree() end
			scatter()
		end
	end
	for _, e in ipairs(woken) do
		-- Last, and not fatal: a failing script is not undone, and a waiter
		-- polls anyway.
		local channel = string.match(KEYS[1], '^[^{]*') .. 'hint:' .. string.sub(e.id, 1, 16)
		redis.pcall('PUBLISH', channel, e.token .. ' ' .. e.id .. ' ' .. KEYS[1]) --mutant:redis-denied-publish
	end
	if news and announces then redis.pcall('PUBLISH', KEYS[1], '') end --mutant:redis-announces
	return answer
end

-- Returns an answer that grants or extends something. It writes
-- even if nothing was changed, as WAIT confirms only what its own connection has
-- written.
local function give(answer)
	wrote = true --mutant:redis-give-writes
	return done(answer)
end

-- The answer that e is lost.
local function lost(e) return 'L' .. (e.granted and e.reason or '') end

-- The live hold of the id and token; or nil, and the answer that it is lost.
local function hold(id, token)
	local e = find(id)
	if not e then return nil, 'L' end
	if not e.granted or e.token ~= token or e.expires <= now then return nil, lost(e) end
	return e
end

-- The same, if its owner may still use it.
local function sound(id, token)
	local e, answer = hold(id, token)
	if e and e.reason ~= '' then return nil, lost(e) end
	return e, answer
end

-- The state of the hold, for its owner.
local function told(e)
	return struct.pack('<dddI4I4H', last, e.token, e.fence, e.weight, e.want, e.n)
end

-- What a refusal reports about the entries ahead of e, or about all, except the hold own.
local function obstacles(e, own)
	local holding, x, c = granted, nil, nil
	if own then
		set(own, NEVER)
		holding = holding - 1
	end
	if e then x, c = ahead(e) else x, c = first, n end
	if own then set(own, ends(own)) end
	-- What it wants blocks more than its weight does, and ends sooner.
	local up = upgrading()
	if up and up ~= own and up.expires < x then x = up.expires end
	local left = 0
	if c > 0 then left = x - now end
	return struct.pack('<dddI4I4', now, last, left, holding, c - holding) .. holders(own)
end

-- Ends e for its owner: it is removed, unless it is a hold whose token was used and
-- whose minimum hold has not passed. There is no lock delay then.
local function leave(e)
	e.expires, e.delay = now, 0
	if ends(e) <= now then return drop(e) end
	keep(e)
	if e.granted then news = true end --mutant:redis-minimum-hold-is-news
end
