-- Deletes some of the sessions that have ended. A renewal finds none then. One that was not ended by its owner stays for a
-- day: who finds it learns when it expired.
DELETE FROM {sessions} WHERE id IN (
	SELECT id FROM {sessions} WHERE
		expires = 0 OR abs(expires) <= {now} - {day} --mutant:pg-session-sweep
	LIMIT 500 FOR UPDATE SKIP LOCKED)
