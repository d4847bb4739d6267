-- Grants a claim on a name that nobody uses, or answers what was in its way.
-- $1 name, $2 id, $3 limit, $4 weight, $5 how many tokens, $6 TTL, $7 minimum
-- hold, $8 lock delay, $9 owner, $10 how long to keep the row; in µs.
WITH seen AS (
	SELECT * FROM {table} WHERE name = $1::bytea
), won AS (
	INSERT INTO {table} AS t (name, form, kept, last, lim,
		id, weight, want, turn, n, shown, token, fence, since, expires, keep, delay, broken, owner)
	SELECT $1::bytea, 1, now + $10::bigint, now + $5::bigint - 1, $3::int,
		ARRAY[$2::bytea], ARRAY[$4::int], ARRAY[$4::int], '{0}', ARRAY[$5::int], '{false}',
		ARRAY[now], '{0}', ARRAY[now], ARRAY[now + $6::bigint], ARRAY[$7::bigint], ARRAY[$8::bigint], ARRAY[''::bytea], ARRAY[$9::bytea]
	FROM (SELECT {now} AS now) c
	-- Who is refused writes nothing, so he must not come to the row's lock.
	WHERE NOT EXISTS (SELECT FROM seen WHERE id <> '{}' OR form <> 1)
	ON CONFLICT (name) DO UPDATE SET (kept, last, lim,
		id, weight, want, turn, n, shown, token, fence, since, expires, keep, delay, broken, owner) = (
		SELECT now + $10::bigint, first + $5::bigint - 1, $3::int,
			ARRAY[$2::bytea], ARRAY[$4::int], ARRAY[$4::int], '{0}'::int[], ARRAY[$5::int], '{false}'::boolean[],
			ARRAY[first], '{0}'::bigint[], ARRAY[now], ARRAY[now + $6::bigint], ARRAY[$7::bigint], ARRAY[$8::bigint], ARRAY[''::bytea], ARRAY[$9::bytea]
		-- Here, and not in VALUES: those are made before the wait for the row.
		FROM (SELECT now, greatest(t.last + 1, now) AS first FROM (SELECT {now} AS now OFFSET 0) c OFFSET 0) d)
	WHERE t.id = '{}' AND t.form = 1
	RETURNING token[1] AS token, {durable}
)
SELECT token, 0::bigint, 1, true, 0::bigint, 0, {no entry} FROM won
UNION ALL
SELECT 0, {now}, s.form, {sane s}, s.last, s.lim, {entry u}
FROM seen s LEFT JOIN LATERAL {unnest s} ON true
WHERE (s.id <> '{}' OR s.form <> 1) AND NOT EXISTS (SELECT FROM won)
