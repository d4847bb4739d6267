-- Ends a session for good: at once, or, with $2, if it has expired. $1 id. It is a
-- write, so it sees the row as it is once a renewal under way is done. The row then holds when the session
-- expired, and the answer how many µs ago that was.
UPDATE {sessions} SET expires = CASE WHEN expires <= {now} THEN -abs(expires) ELSE 0 END
WHERE id = $1::bytea AND
	(NOT $2::boolean OR expires <= {now}) --mutant:pg-session-end-is-asked
RETURNING {over}, {durable}
