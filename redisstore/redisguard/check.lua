-- Precedes every script. The fence's key is the last of KEYS; the token and
-- whether to raise the fence are the last of ARGV. The script behind it sees none of them.
-- Tokens are compared as digits: Lua's numbers are exact to 2^53 only.
do
	local key = table.remove(KEYS) --mutant:redisguard-key-hidden
	local raise, token = table.remove(ARGV), table.remove(ARGV) --mutant:redisguard-token-hidden
	local fence = redis.call('GET', key) or '0'
	if not string.match(fence, '^[0-9]+$') then return redis.error_reply('HOLDFASTCORRUPT no fence') end --mutant:redisguard-is-a-fence
	if #fence > #token or (#fence == #token and fence > token) then --mutant:redisguard-fence-compared
		return redis.error_reply('HOLDFASTSTALE ' .. fence)
	end
	if fence ~= token
		and raise == '1' --mutant:redisguard-fence-raised
	then redis.call('SET', key, token) end
end
