-- Marks a hold as broken, or frees it. $1 name, $2 id, $3 any token of the
-- hold's block, or its upgrade token, $4 the reason, as it is stored, $5 whether to free it: then it blocks
-- nobody, and stays until its owner learns why, or until it expires.
--@ entries.sql
, v AS MATERIALIZED (
	SELECT t.now, t.form, t.sane, t.last, cardinality(t.id) AS count,
		NULL::bigint AS ttl, false AS try, false AS tell, false AS asks, true AS announces, k.its AND $5::boolean AS news, a.o AS own, ''::bytea AS reason,
		CASE WHEN k.its THEN '' ELSE 'L' END AS verdict, k.its AS changed
	FROM t LEFT JOIN e a ON a.id = $2::bytea,
	LATERAL (SELECT coalesce(a.token <> 0 AND $3::bigint > 0
		AND ($3::bigint = a.fence OR a.token <= $3::bigint AND $3::bigint < a.token + a.n)
		AND NOT {freed a} --mutant:pg-freed-broken-twice
		AND greatest(a.expires + a.delay, CASE WHEN a.shown THEN a.since + a.keep END) > t.now, false) AS its) k
), c AS MATERIALIZED (
	SELECT e.o, e.id, e.lim, e.weight, CASE WHEN m.m THEN e.weight ELSE e.want END AS want, e.turn, e.n, e.shown, e.token, e.fence,
		e.since, e.expires, CASE WHEN m.m THEN 0 ELSE e.keep END AS keep,
		CASE WHEN m.m AND $5::boolean THEN 0 ELSE e.delay END AS delay, --mutant:pg-freed-delay
		CASE WHEN m.m THEN $4::bytea ELSE e.broken END AS broken, e.owner, e.session, e.asks,
		m.m AND $5::boolean AND e.expires <= v.now AS gone, --mutant:pg-freed-dropped
		false AS fresh
	FROM v, e, LATERAL (SELECT v.changed AND e.o = v.own AS m) m
)
--@ settle.sql
