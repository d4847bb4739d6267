-- Deletes rows that were unused for so long that their tokens need not be
-- remembered, in $1 blocks of the table from block $2 on, or from a random one
-- if $2 is -1. It returns how many, the next block, or 0 at the end, and
-- the names there that were not written for as long, but that sessions keep.
WITH part AS MATERIALIZED (
	SELECT begin, begin + $1::bigint AS behind, blocks FROM (
		SELECT CASE WHEN
			$2::bigint < 0 --mutant:pg-sweep-begin
			THEN floor(random() * greatest(1, blocks - $1::bigint + 1))::bigint ELSE $2::bigint END AS begin, blocks
		FROM (SELECT pg_relation_size({regclass}) / current_setting('block_size')::bigint AS blocks) b OFFSET 0
	) c
), idle AS MATERIALIZED (
	SELECT name FROM {table}
	WHERE ctid >= (SELECT format('(%s,0)', begin) FROM part)::tid AND ctid < (SELECT format('(%s,0)', behind) FROM part)::tid
		AND kept < {now}
		AND form = 2 --mutant:pg-sweep-form
		AND '' = ALL (session) --mutant:pg-sweep-kept
	FOR UPDATE SKIP LOCKED
), gone AS (
	DELETE FROM {table} t USING idle WHERE t.name = idle.name AND t.kept < {now}
		AND '' = ALL (session) --mutant:pg-sweep-kept-still
	RETURNING 1
)
SELECT (SELECT count(*) FROM gone), CASE WHEN behind >= blocks THEN 0 ELSE behind END, (SELECT coalesce(string_agg(encode(name, 'hex'), ' '), '') FROM {table}
	WHERE ctid >= (SELECT format('(%s,0)', begin) FROM part)::tid AND ctid < (SELECT format('(%s,0)', behind) FROM part)::tid
		AND kept < {now} AND form = 2 AND '' <> ANY (session))
FROM part
