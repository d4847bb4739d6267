-- Grants a claim on an unused name. $1 name, $2 id, $3 limit,
-- $4 weight, $5 how many tokens, $6 TTL, $7 minimum hold, $8 lock delay,
-- $9 owner, $10 how long to keep the row; in µs; $11 whether watchers of the name are notified.
INSERT INTO {table} AS t (name, form, kept, last, {columns})
SELECT $1::bytea, 2, now + $10::bigint, now + $5::bigint - 1,
	ARRAY[$2::bytea], ARRAY[$3::int], ARRAY[$4::int], ARRAY[$4::int], '{0}', ARRAY[$5::int], '{false}',
	ARRAY[now], '{0}', ARRAY[now], ARRAY[now + $6::bigint], ARRAY[$7::bigint], ARRAY[$8::bigint], ARRAY[''::bytea], ARRAY[$9::bytea], ARRAY[''::bytea], ARRAY[''::bytea]
FROM (SELECT {now} AS now) c
-- A refused claim writes nothing, so it must not wait for the row's lock.
WHERE NOT EXISTS (SELECT FROM {table} WHERE name = $1::bytea
	AND (id <> '{}' OR form <> 2) --mutant:pg-refused-try
)
ON CONFLICT (name) DO UPDATE SET (kept, last, {columns}) = (
	SELECT now + $10::bigint, first + $5::bigint - 1,
		ARRAY[$2::bytea], ARRAY[$3::int], ARRAY[$4::int], ARRAY[$4::int], '{0}'::int[], ARRAY[$5::int], '{false}'::boolean[],
		ARRAY[first], '{0}'::bigint[], ARRAY[now], ARRAY[now + $6::bigint], ARRAY[$7::bigint], ARRAY[$8::bigint], ARRAY[''::bytea], ARRAY[$9::bytea], ARRAY[''::bytea], ARRAY[''::bytea]
	-- Here and not above: what is above was computed before the wait for the row.
	FROM (SELECT now,
		greatest(t.last + 1, now) AS first --mutant:pg-ask-fast-token
		FROM (SELECT {now} AS now OFFSET 0) c OFFSET 0) d)
WHERE t.id = '{}' AND t.form = 2
RETURNING token[1], CASE WHEN
	$11::boolean --mutant:pg-ask-fast-announced
	THEN concat({durable}, pg_notify({channel $1}, '')) ELSE {durable} END
