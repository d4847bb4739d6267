-- Drops rows that nobody has used for so long that their tokens need not be
-- remembered, in a part of the table that chance picks: $1 blocks of it.
WITH part AS MATERIALIZED (
	SELECT floor(random() * greatest(1, blocks - $1::bigint + 1))::bigint AS begin
	FROM (SELECT pg_relation_size({regclass}) / current_setting('block_size')::bigint AS blocks) b
), idle AS MATERIALIZED (
	SELECT name FROM {table}
	WHERE ctid >= (SELECT format('(%s,0)', begin) FROM part)::tid AND ctid < (SELECT format('(%s,0)', begin + $1::bigint) FROM part)::tid
		AND kept < {now} AND form = 1
	FOR UPDATE SKIP LOCKED
)
DELETE FROM {table} t USING idle WHERE t.name = idle.name AND t.kept < {now}
