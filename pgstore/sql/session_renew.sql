-- Renews a session that has not ended, and tells how often it was called, and since when the server runs. Of two
-- renewals the older may be done last, so an expiry is never moved back. What is
-- tested is tested again if the statement has waited for the row. $1 id.
UPDATE {sessions} SET expires = greatest(expires, {now} + ttl)
WHERE id = $1::bytea
	AND expires > {now} --mutant:pg-session-renewed-when-over
RETURNING calls, {now}, {started}, {durable}
