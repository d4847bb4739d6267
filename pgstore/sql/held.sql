-- Reads a name and locks its row until the transaction ends, so that nothing is
-- granted meanwhile. The time is read once the row is locked.
WITH found AS MATERIALIZED (
	SELECT * FROM {table} WHERE name = $1::bytea
	FOR SHARE --mutant:pg-held-share
), t AS MATERIALIZED (
	SELECT *, {now} AS now FROM found
)
SELECT t.now, t.form, {sane t}, t.last, {entry u}
FROM t LEFT JOIN LATERAL {unnest t} ON true
ORDER BY u.o
