-- What is stored of a name, as far as a claim has to know: its own entry, those that hold or have an expiry of their own, and for how
-- long their sessions go on, and the first that waits. Of the others that wait ahead it
-- tells how many. $1 name, $2 id. Writes nothing, and waits for nothing: so it sees all
-- as it is at one moment.
SELECT {now}, t.form, {sane t}, t.last, t.lim, {entry u},
	CASE WHEN u.token <> 0 THEN (SELECT x.expires - {now} FROM {sessions} x WHERE x.id = u.session) END, w.skipped, ''
FROM {table} t,
--@ waiting.sql
	LEFT JOIN LATERAL {unnest t} ON {ahead}
WHERE t.name = $1::bytea
ORDER BY u.o
