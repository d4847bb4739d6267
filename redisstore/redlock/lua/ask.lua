-- Asks for the claim with a fresh number, P, which becomes its token if the claim is
-- accepted. Only a newer ask of the same owner takes a grant away.
-- KEYS: 1 the name's; 2 the node's record. ARGV: 1 the entry from its order on,
-- as if accepted; 2 TTL in µs; 3 how long to keep a queue position, in µs; 4 how long to keep the key, in
-- ms; 5 the node's record when it is open; 6 "t" for a try, "r" to repair a
-- hold, else empty; 7 why it asks the holders to give up, or empty; 8 "announce" if watchers
-- of the name are notified; may be missing.
-- Returns 'O' accepted, and the clock; 'N' granted, but P is not above last; 'H' P
-- is too far ahead of the clock; 'R' refused; 'S' an older ask; 'L' lost; 'M' mismatch;
-- 'Q' the node may have forgotten and grants nothing yet; 'X' another maximum.
local v = redis.call('MGET', KEYS[1], KEYS[2])
local s, record = v[1], v[2]
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local AHEAD = 10000000
if record == ARGV[5] and (not s or (#s == 11 and string.sub(s, 1, 3) == 'hl1')) and ARGV[6] ~= 'r' then
	-- The name is free. The code behind the helpers does the same, more slowly.
	local p, n = struct.unpack('<d', ARGV[1], 9), struct.unpack('<H', ARGV[1], 80)
	local newest = now
	if s then newest = struct.unpack('<d', s, 4) end
	if p > newest --mutant:redlock-alone-above-newest
		and p + n - 1 <= now + AHEAD then
		redis.call('SET', KEYS[1], struct.pack('<c3ddd', 'hl1', p + n - 1, now, now + ARGV[2]) .. ARGV[1], 'PX', ARGV[4])
		if ARGV[8] == 'announce' then redis.pcall('PUBLISH', KEYS[1], '') end --mutant:redlock-free-grant-announced
		return 'O' .. struct.pack('<d', now)
	end
end
if record ~= ARGV[5] then
	local most = struct.unpack('<d', ARGV[5], 5)
	if not record then --mutant:redlock-wiped
		-- The node was wiped, or is new: what it granted before has expired
		-- once the longest TTL has passed.
		redis.call('SET', KEYS[2], struct.pack('<c4dd', 'hln1', most, now + most))
		return 'Q' .. struct.pack('<d', most)
	end
	if #record ~= 20 or string.sub(record, 1, 4) ~= 'hln1' then return 'D' end
	local have, opens = struct.unpack('<dd', record, 5)
	if have ~= most then return 'X' .. struct.pack('<d', have) end --mutant:redlock-maximum
	if opens > now then return 'Q' .. struct.pack('<d', math.min(opens - now, most)) end --mutant:redlock-opens
	redis.call('SET', KEYS[2], ARGV[5])
end
--@ node.lua
announces = ARGV[8] == 'announce'
local new = parse(struct.pack('<dd', now, now) .. ARGV[1], 1)
if new.p + new.n - 1 > now + AHEAD then return 'H' .. struct.pack('<d', now) end --mutant:redlock-far-ahead
local own = find(new.id)
if own and broken(own) then
	local reason = own.reason
	settle(new.id)
	return done('L' .. reason)
end
if own and own.expires <= now and own.accepted then -- before anything is dropped: it is lost, never a second entry
	settle(new.id)
	return done('L')
end
drop()
own = find(new.id)
if own and new.p < own.p then --mutant:redlock-older-ask
	room(new.id)
	return done('S')
end
local other = false
for i = 1, #q do
	local e = q[i]
	if e ~= own and e.limit ~= new.limit and (e.limit == FULL or new.limit == FULL) then --mutant:redlock-two-totals
		other = math.min(other or e.limit, e.limit)
	end
end
if other then
	room(new.id)
	return done('M' .. string.format('%.0f', other))
end
local fresh = not own or new.p > own.p --mutant:redlock-fresh
local was, dropped = own ~= nil, wrote
local reason = own and not own.accepted and own.reason or ''
if fresh then
	if own then
		local _, i = find(new.id)
		table.remove(q, i)
	else
		added = true --mutant:redlock-ask-adds
	end
	own = new
	own.granted, own.accepted, own.shown, own.same = false, false, false, false
	own.reason = ARGV[7]
	insert(own)
end
room(new.id)
if own.granted then
	if not own.accepted
		and (own.p > last or ARGV[6] == 'r') --mutant:redlock-above-newest
	then
		-- A majority that still holds has granted what is repaired. So its number
		-- need not exceed one that others have drawn meanwhile, or that the node has made up
		-- for a lost record; it lowers none.
		last = math.max(last, own.p + own.n - 1) --mutant:redlock-newest
		own.accepted, own.since, own.same, own.reason = true, now, false, '' --mutant:redlock-who-holds-asks-nobody
		news = true --mutant:redlock-grant-is-news
	end
	local us = own.accepted and ARGV[2] or ARGV[3]
	if now + us > own.expires then own.expires, own.same, wrote = now + us, false, true end
	if own.accepted then return done('O' .. struct.pack('<d', now)) end
	return done('N' .. struct.pack('<dd', now, last))
end
if ARGV[6] == 't' then
	local _, i = find(new.id)
	table.remove(q, i)
	added = false
	room(new.id)
	wrote = dropped or was or #woken > 0 -- otherwise nothing has changed
	return done('R' .. obstacles(nil))
end
if now + ARGV[3] > own.expires then own.expires, own.same, wrote = now + ARGV[3], false, true end
if fresh then
	-- A claim that is granted here but comes later in the order has to ask again, and then yields.
	for i = 1, #q do
		local e = q[i]
		if e.granted and before(own, e) and e.expires > now and not broken(e) then woken[#woken + 1] = e end
	end
end
if own.reason ~= '' and own.reason ~= reason then --mutant:redlock-asked-once
	asked.by = own.order -- its number may differ on each node
	for i = 1, #q do
		local e = q[i]
		if e.accepted and e.expires > now and e.reason == '' then asked[#asked + 1] = e end
	end
end
return done('R' .. obstacles(own))
