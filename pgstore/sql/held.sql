-- Reads a name and keeps its row from being changed until the transaction ends:
-- nobody is granted anything then. The time is that of when the row was had.
WITH found AS MATERIALIZED (
	SELECT * FROM {table} WHERE name = $1::bytea
	FOR SHARE --mutant:pg-held-share
), t AS MATERIALIZED (
	SELECT *, {now} AS now FROM found
)
SELECT t.now, t.form, {sane t}, t.last, {entry u}
FROM t LEFT JOIN LATERAL {unnest t} ON true
ORDER BY u.o
