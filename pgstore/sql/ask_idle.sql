-- Grants a claim on an unused name that has a row, at a lower cost than
-- ask_fast.sql. Parameters as there.
UPDATE {table} AS t SET (kept, last, {columns}) = (
	SELECT now + $10::bigint, first + $5::bigint - 1,
		ARRAY[$2::bytea], ARRAY[$3::int], ARRAY[$4::int], ARRAY[$4::int], '{0}'::int[], ARRAY[$5::int], '{false}'::boolean[],
		ARRAY[first], '{0}'::bigint[], ARRAY[now], ARRAY[now + $6::bigint], ARRAY[$7::bigint], ARRAY[$8::bigint], ARRAY[''::bytea], ARRAY[$9::bytea], ARRAY[''::bytea], ARRAY[''::bytea]
	FROM (SELECT now,
		greatest(t.last + 1, now) AS first --mutant:pg-ask-idle-token
		FROM (SELECT {now} AS now OFFSET 0) c OFFSET 0) d)
WHERE name = $1::bytea
	AND id = '{}' --mutant:pg-ask-idle
	AND form = 2 --mutant:pg-ask-idle-form
RETURNING token[1], CASE WHEN
	$11::boolean --mutant:pg-ask-idle-announced
	THEN concat({durable}, pg_notify({channel $1}, '')) ELSE {durable} END
