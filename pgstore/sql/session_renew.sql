-- Renews a session that has not ended, and returns how often it was called, and since when the server runs. The older of two
-- renewals may be done last, so an expiry is never moved back. PostgreSQL tests the condition
-- again if the statement had to wait for the row. $1 id.
UPDATE {sessions} SET expires = greatest(expires, {now} + ttl)
WHERE id = $1::bytea
	AND expires > {now} --mutant:pg-session-renewed-when-over
RETURNING calls, {now}, {started}, {durable}
