-- Deletes some of the sessions that have ended. A renewal finds none then.
DELETE FROM {sessions} WHERE id IN (
	SELECT id FROM {sessions} WHERE
		expires <= {now} --mutant:pg-session-sweep
	LIMIT 500 FOR UPDATE SKIP LOCKED)
