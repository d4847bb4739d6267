-- What every operation begins with. The row is locked first and alone, so that
-- what follows sees it as it is once nobody else works on it, and the time as
-- it is then. All that is decided on is in this one row: another would be read
-- as it was before the wait.
WITH found AS (
	SELECT * FROM {table} WHERE name = $1::bytea
	FOR UPDATE --mutant:pg-row-lock
), t AS MATERIALIZED (
	SELECT *, {now} AS now, {sane} AS sane FROM found
), e AS MATERIALIZED (
	SELECT u.* FROM t, LATERAL {unnest t} WHERE t.sane
)
