-- Pushes the expiry of a hold forward.
-- ARGV: 1 id; 2 token; 3 TTL in µs.
local s = redis.call('GET', KEYS[1])
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
--@ queue.lua
local e, lost = hold(ARGV[1], tonumber(ARGV[2]))
if e and e.broken ~= '' then e, lost = nil, 'L' .. e.broken end
if e then
	if not e.shown then e.shown, e.raw = true, nil end
	push(e, ARGV[3])
end
settle(ARGV[1])
return done(lost or 1)
