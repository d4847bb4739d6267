-- Returns names that have entries: those after $1, at most $2 of them.
SELECT {now}, t.form, {sane t}, t.last, {entry u}, t.name
FROM (SELECT * FROM {table} WHERE name > $1::bytea AND (id <> '{}' OR form <> 2) ORDER BY name LIMIT $2::bigint) t
	LEFT JOIN LATERAL {unnest t} ON true
ORDER BY t.name, u.o
