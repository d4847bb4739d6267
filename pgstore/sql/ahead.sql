-- What is stored of a name, and for how long the sessions of those that hold go on, and that of the first that waits. With an id, as far as its
-- claim has to know: its own entry, those that hold or have an expiry of their own, and the first that waits; of the others that wait ahead it
-- tells how many. $1 name, $2 id or ''. Writes nothing, and waits for nothing: so it sees all
-- as it is at one moment.
SELECT {now}, t.form, {sane t}, t.last, {entry u},
	CASE WHEN u.token <> 0 OR u.o = w.first THEN (SELECT x.expires - {now} FROM {sessions} x WHERE x.id = u.session) END, w.skipped, ''
FROM {table} t,
--@ waiting.sql
	LEFT JOIN LATERAL {unnest t} ON {ahead}
WHERE t.name = $1::bytea
ORDER BY u.o
