-- Appends a claim, or refreshes the entry of its id. $1 to $9 as in
-- ask_fast.sql; $10 how long to keep a place, or $12 the session that keeps it;
-- $11 whether it is a try; $13 when it is too late to take a place in a session: by
-- then it may have been given up.
--@ entries.sql
, v AS MATERIALIZED (
	SELECT t.now, t.form, t.sane, t.last, t.lim, cardinality(t.id) AS count, $3::int AS newlim,
		$6::bigint AS ttl, $11::boolean AS try, true AS tell,
		coalesce(a.o, cardinality(t.id) + 1) AS own, a.broken AS reason,
		CASE WHEN a.broken <> '' OR a.expires <= t.now THEN 'L' ELSE '' END AS verdict,
		-- What a session keeps is not pushed forward, so a crowd that asks again writes nothing.
		coalesce(a.broken = '' AND a.expires > t.now
			AND a.session = '' --mutant:pg-asked-again-is-written
			, false) AS changed
	FROM t LEFT JOIN e a ON a.id = $2::bytea
), c AS MATERIALIZED (
	SELECT e.o, e.id, e.weight, e.want, e.turn, e.n, e.shown, e.token, e.fence, e.since,
		CASE WHEN e.o = v.own AND v.verdict = '' AND e.token = 0 THEN greatest(e.expires, v.now + $10::bigint) ELSE e.expires END AS expires,
		e.keep, e.delay, e.broken, e.owner, e.session, false AS gone, false AS fresh
	FROM e, v
	UNION ALL
	SELECT v.own, $2::bytea, $4::int, $4::int, 0, $5::int, false, 0, 0, 0,
		CASE WHEN $12::bytea = '' THEN v.now + $10::bigint ELSE {unending} END, $7::bigint, $8::bigint, ''::bytea, $9::bytea, $12::bytea, false, true
	FROM v WHERE v.sane AND v.own > v.count
		AND ($12::bytea = '' OR v.now < $13::bigint) --mutant:pg-late-ask-is-void
)
--@ settle.sql
