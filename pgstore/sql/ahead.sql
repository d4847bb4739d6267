-- Returns what is stored of a name, and how long the sessions of the holders and of the first waiter last. With an id it returns only what
-- that claim needs: its own entry, the holders, entries with an expiry of their own, and the first waiter; of the other waiters ahead
-- only their number. $1 name, $2 id or ''. Writes nothing and waits for nothing, so it sees
-- everything at one moment.
SELECT {now}, t.form, {sane t}, t.last, {entry u},
	CASE WHEN u.token <> 0 OR u.o = w.first THEN (SELECT x.expires - {now} FROM {sessions} x WHERE x.id = u.session) END, w.skipped, ''
FROM {table} t,
--@ waiting.sql
	LEFT JOIN LATERAL {unnest t} ON {ahead}
WHERE t.name = $1::bytea
ORDER BY u.o
