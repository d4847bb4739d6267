-- Moves a queue position, or the hold that it has become, into another session. $1 name, $2 id, $3 the sessions that may keep it now, an array as text, $4 the one that keeps it from
-- now on. A late copy of the statement changes nothing, as nothing moves back into a session of $3.
UPDATE {table} AS t SET session[p(t.id, $2)] = $4::bytea
WHERE name = $1::bytea AND form = 2
	AND session[p(t.id, $2)] = ANY ($3::text::bytea[]) --mutant:pg-position-moves-out-of-where-it-is
RETURNING {durable}
