-- What is stored of a name, and for how long the sessions of those that hold go on.
-- Writes nothing, and waits for nothing: so it sees all as it is at one moment.
SELECT {now}, t.form, {sane t}, t.last, t.lim, {entry u},
	CASE WHEN u.token <> 0 THEN (SELECT x.expires - {now} FROM {sessions} x WHERE x.id = u.session) END, 0::bigint, ''
FROM {table} t LEFT JOIN LATERAL {unnest t} ON true
WHERE t.name = $1::bytea
ORDER BY u.o
