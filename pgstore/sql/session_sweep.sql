-- Deletes some sessions that have ended. A renewal finds none then. One that its owner did not end stays for a
-- day, so that others learn when it expired.
DELETE FROM {sessions} WHERE id IN (
	SELECT id FROM {sessions} WHERE
		expires = 0 OR abs(expires) <= {now} - {day} --mutant:pg-session-sweep
	LIMIT 500 FOR UPDATE SKIP LOCKED)
