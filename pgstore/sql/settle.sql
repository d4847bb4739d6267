-- The rule of package queue. It follows v, one row with what the operation has
-- found, and c, the entries as the operation leaves them, with gone for one that it removes
-- and fresh for one that it adds. Expired entries are dropped here, and waiters are
-- granted in order.
, d AS MATERIALIZED (
	SELECT c.*, c.token <> 0 AND c.want > c.weight AND c.expires > v.now AS wants,
		{freed c} --mutant:pg-freed-in-the-way
		AS freed
	FROM c, v
	WHERE NOT c.gone AND
		v.now --mutant:pg-over
		< CASE WHEN c.token = 0 THEN c.expires ELSE greatest(
			c.expires + c.delay, --mutant:pg-delay
			CASE WHEN c.shown THEN c.since + c.keep END --mutant:pg-keep
		) END
), r AS MATERIALIZED (
	-- One is a lock and the other a semaphore. The totals of semaphores may differ: what is held exceeds the total of no holder.
	SELECT s.*, coalesce(s.had <> s.asked AND {full} IN (s.had, s.asked), false) AS mismatch,
		greatest(v.last + 1, v.now) AS first --mutant:pg-settle-token
	FROM v, (
		SELECT count(*) FILTER (WHERE NOT fresh) AS others,
			coalesce(sum(weight) FILTER (WHERE token <> 0 AND NOT freed), 0) AS held, --mutant:pg-held
			coalesce(min(lim) FILTER (WHERE token <> 0 AND NOT freed), {full}) AS least, --mutant:pg-least
			min(lim) FILTER (WHERE NOT fresh AND NOT freed) AS had, --mutant:pg-freed-has-limit
			 min(lim) FILTER (WHERE fresh) AS asked,
			max(o) FILTER (WHERE wants) AS upgrading, -- at most one
			coalesce(sum(want - weight) FILTER (WHERE wants), 0) AS more
		FROM d) s
), g AS MATERIALIZED (
	-- An upgrade comes before all waiters, and none of them is granted while it is
	-- pending. The first waiter that does not fit blocks all behind it.
	SELECT d.*, coalesce(d.o = r.upgrading AND r.held + r.more <= {full}, false) AS upgraded,
		d.token = 0
			AND r.upgrading IS NULL --mutant:pg-upgrading
			AND NOT (d.fresh AND r.mismatch)
			AND r.held +
			sum(CASE WHEN d.token = 0 THEN d.weight ELSE 0 END) --mutant:pg-weight
			OVER (ORDER BY d.o) <= least(r.least,
			min(CASE WHEN d.token = 0 THEN d.lim END) --mutant:pg-least-of-those-granted
			OVER (ORDER BY d.o)) AS granted,
		sum(CASE WHEN d.token = 0 THEN d.n ELSE 0 END) OVER (ORDER BY d.o) - d.n AS before -- how many tokens are drawn before its own
	FROM d, r
), x AS MATERIALIZED (
	SELECT g.o, g.o = v.own AS own, g.granted, g.upgraded, g.id, g.lim,
		CASE WHEN g.upgraded THEN g.want ELSE g.weight END AS weight, g.want, g.turn, g.n, g.shown,
		CASE WHEN g.granted THEN r.first + g.before ELSE g.token END AS token,
		CASE WHEN g.upgraded THEN r.first ELSE g.fence END AS fence,
		CASE WHEN g.granted THEN v.now ELSE g.since END AS since,
		-- Only the owner itself extends a hold.
		-- A claim granted at once has an expiry of its own, even if it brought a session to wait in.
		CASE WHEN g.fresh AND g.granted THEN v.now + v.ttl
			WHEN g.o = v.own AND v.verdict = '' AND (g.granted OR g.token <> 0) THEN greatest(g.expires, v.now + v.ttl) ELSE g.expires END AS expires,
		g.keep, g.delay, g.broken, g.owner, CASE WHEN g.fresh AND g.granted THEN ''::bytea ELSE g.session END AS session,
		CASE WHEN g.upgraded THEN ''::bytea ELSE g.asks END AS asks
	FROM g, r, v
	WHERE NOT (g.fresh AND (r.mismatch
		OR v.try AND NOT g.granted --mutant:pg-try
	))
), w AS MATERIALIZED (
	SELECT v.sane AND (v.changed OR r.others < (SELECT count(*) FROM e)
			OR (SELECT bool_or(e.ended) FROM e) --mutant:pg-ended-is-written
			OR coalesce(bool_or(x.granted OR x.upgraded OR x.o > v.count), false)) AS wrote,
		greatest(v.last, max(x.token + x.n - 1) FILTER (WHERE x.granted), max(x.fence) FILTER (WHERE x.upgraded))::bigint AS last,
		greatest(v.now,
			max(CASE WHEN x.session = '' THEN x.expires ELSE v.now END + x.delay), --mutant:pg-kept-expires
			max(x.since + x.keep) --mutant:pg-kept-minimum
			) + {day} AS kept,
		{arrays}
	FROM v CROSS JOIN r LEFT JOIN x ON true
	GROUP BY v.sane, v.changed, v.count, v.last, v.now, r.others
), written AS (
	UPDATE {table} AS t SET (kept, last, {columns}) =
		ROW(w.kept, w.last, {w columns})
	FROM w WHERE t.name = $1::bytea AND w.wrote
	RETURNING {durable} AS durable
), woken AS MATERIALIZED (
	SELECT pg_notify('holdfast_' || encode(substr(id, 1, 8), 'hex'),
		CASE WHEN granted THEN token || ' ' || n ELSE '0 0' END || ' ' || encode(id, 'hex') || ' ' || encode($1::bytea, 'hex'))::text AS sent, true AS wakes
	FROM x WHERE
		(granted OR upgraded) --mutant:pg-woken
		AND own IS NOT TRUE
	UNION ALL
	-- A claim begins to ask the other holders to give up: their renewals return why. No two notifications of a statement are alike,
	-- as the server would send only one.
	SELECT pg_notify('holdfast_' || encode(substr(x.id, 1, 8), 'hex'), '0 1 ' || encode(x.id, 'hex') || ' ' || encode($1::bytea, 'hex'))::text, true
	FROM v, x WHERE v.asks AND x.token <> 0 AND x.broken = '' AND x.expires > v.now
		AND x.own IS NOT TRUE --mutant:pg-upgrade-notifies-itself
		AND EXISTS (SELECT FROM x AS o WHERE o.own AND (o.token = 0 OR o.want > o.weight))
	UNION ALL
	-- The holders of the name have changed, or what others see of them.
	SELECT pg_notify({channel $1}, '')::text, false FROM v
	WHERE v.announces --mutant:pg-announces
		AND (v.news
		OR EXISTS (SELECT FROM x WHERE x.granted) --mutant:pg-grant-is-news
		OR EXISTS (SELECT FROM e WHERE e.token <> 0 AND NOT {freed e} AND NOT EXISTS (SELECT FROM d WHERE d.o = e.o)))
)
SELECT v.verdict, v.reason, coalesce((SELECT e.session FROM e WHERE e.o = v.own), ''::bytea), (SELECT count(sent) FILTER (WHERE wakes) FROM woken), (SELECT count(durable) FROM written),
	v.now, v.form, v.sane, w.last, {entry x}
FROM v CROSS JOIN w LEFT JOIN x ON v.tell AND v.verdict = ''
ORDER BY x.o
