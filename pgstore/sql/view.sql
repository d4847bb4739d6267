-- What is stored of a name. Writes nothing.
SELECT {now}, t.form, {sane t}, t.last, t.lim, {entry u}
FROM {table} t LEFT JOIN LATERAL {unnest t} ON true
WHERE t.name = $1::bytea
ORDER BY u.o
