-- Appends a claim, or refreshes the entry of its id. $1 to $9 as in
-- ask_fast.sql; $10 how long to keep a queue position, or $12 the session that keeps it;
-- $11 whether it is a try; $13 when it is too late to take a position in a session: its caller
-- may have left by then; $14 why it asks the holders to give up, or ''; $15 whether watchers of
-- the name are notified.
--@ entries.sql
, v AS MATERIALIZED (
	SELECT t.now, t.form, t.sane, t.last, cardinality(t.id) AS count,
		$6::bigint AS ttl, $11::boolean AS try, true AS tell, $14::bytea <> '' AND (a.o IS NULL OR a.token = 0 AND a.asks <> $14::bytea) AS asks, $15::boolean AS announces, false AS news,
		coalesce(a.o, cardinality(t.id) + 1) AS own, a.broken AS reason,
		CASE WHEN a.broken <> '' OR a.expires <= t.now THEN 'L' ELSE '' END AS verdict,
		-- An entry that a session keeps is not extended, so a crowd that asks again writes nothing.
		coalesce(a.broken = '' AND a.expires > t.now AND (false
			OR a.session = '' --mutant:pg-asked-again-is-written
			OR a.token = 0 AND a.asks <> $14::bytea
			), false) AS changed
	FROM t LEFT JOIN e a ON a.id = $2::bytea
), c AS MATERIALIZED (
	SELECT e.o, e.id, e.lim, e.weight, e.want, e.turn, e.n, e.shown, e.token, e.fence, e.since,
		CASE WHEN e.o = v.own AND v.verdict = '' AND e.token = 0 THEN greatest(e.expires, v.now + $10::bigint) ELSE e.expires END AS expires,
		e.keep, e.delay, e.broken, e.owner, e.session,
		CASE WHEN e.o = v.own AND v.verdict = '' AND e.token = 0 THEN $14::bytea ELSE e.asks END AS asks, false AS gone, false AS fresh
	FROM e, v
	UNION ALL
	SELECT v.own, $2::bytea, $3::int, $4::int, $4::int, 0, $5::int, false, 0, 0, 0,
		CASE WHEN $12::bytea = '' THEN v.now + $10::bigint ELSE {unending} END, $7::bigint, $8::bigint, ''::bytea, $9::bytea, $12::bytea, $14::bytea, false, true
	FROM v WHERE v.sane AND v.own > v.count
		AND ($12::bytea = '' OR v.now < $13::bigint) --mutant:pg-late-ask-is-void
)
--@ settle.sql
