-- Calls a session. $1 id.
UPDATE {sessions} SET calls = calls + 1 WHERE id = $1::bytea RETURNING {durable}
