-- Releases the only hold of a name, if nothing of it stays to block, and grants the
-- next waiter, if nothing else must be done: no entry has expired, and the waiter after
-- that does not fit. $1 name, $2 id, $3 token, $4 the
-- newest token used of its block, or 0, $5 whether a session keeps it, $6 whether watchers of the name are notified.
UPDATE {table} AS t SET
	(last, token, since, kept) = (
		SELECT CASE WHEN cardinality(t.id) = 1 THEN last ELSE
			first + t.n[2] - 1 --mutant:pg-release-next-block
			END,
			CASE WHEN cardinality(t.id) = 1 THEN '{}' ELSE ARRAY[first] || t.token[3:] END,
			CASE WHEN cardinality(t.id) = 1 THEN '{}' ELSE ARRAY[now] || t.since[3:] END,
			CASE WHEN cardinality(t.id) = 1 THEN t.kept ELSE greatest(t.kept, now + {day} +
				t.keep[2] --mutant:pg-kept-next
				) END
		FROM (SELECT now, last,
			greatest(last + 1, now) AS first --mutant:pg-release-next-token
			FROM (SELECT {now} AS now,
			CASE WHEN $4::bigint >= t.token[1] AND $4::bigint < t.last AND t.last = t.token[1] + t.n[1] - 1 THEN
				$4::bigint --mutant:pg-release-next-unused
				ELSE t.last END AS last
			OFFSET 0) b OFFSET 0) c),
	{tails}
WHERE name = $1::bytea
	AND form = 2 --mutant:pg-release-next-form
	AND id[1] = $2::bytea --mutant:pg-release-next-id
	AND token[1] = $3::bigint --mutant:pg-release-next-held-token
	AND broken[1] = '' --mutant:pg-release-next-freed
	AND 0 = ALL (token[2:]) --mutant:pg-release-next-alone
	AND {now} < ALL (expires) --mutant:pg-release-next-expired
	AND since[1] + keep[1] <= {now} --mutant:pg-release-next-keep
	AND (cardinality(id) = 1 OR {sane t}
		AND (cardinality(id) = 2 OR weight[2] > least(lim[2], lim[3]) - weight[3]) --mutant:pg-release-next-one
	)
RETURNING id <> '{}', concat(CASE WHEN
	id = '{}' --mutant:pg-release-next-durable
	AND NOT $5::boolean THEN set_config('synchronous_commit', 'off', true)
	WHEN id = '{}' THEN {durable}
	ELSE concat({durable}, pg_notify('holdfast_' || encode(substr(id[1], 1, 8), 'hex'),
		token[1] || ' ' || n[1] || ' ' || encode(id[1], 'hex') || ' ' || encode(name, 'hex'))) END,
	CASE WHEN
		$6::boolean --mutant:pg-release-next-announced
		THEN pg_notify({channel $1}, '')::text END)
