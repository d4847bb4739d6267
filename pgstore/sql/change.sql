-- Changes the weight of an upgradeable hold. $1 name, $2 id, $3 token, $4 turn,
-- $5 weight, $6 why an upgrade asks the others to give up, or ''.
--@ entries.sql
, v AS MATERIALIZED (
	SELECT t.now, t.form, t.sane, t.last, cardinality(t.id) AS count,
		NULL::bigint AS ttl, false AS try, true AS tell,
		k.verdict = '' AND $4::int > a.turn AND $5::int > a.weight AND $6::bytea <> ''
			AND (a.want = a.weight OR a.asks <> $6::bytea) --mutant:pg-upgrade-asks-each-turn
			AS asks,
		false AS announces, false AS news, a.o AS own, a.broken AS reason, k.verdict,
		k.verdict = '' AND $4::int > a.turn AS changed -- otherwise it is a copy of a change that was answered before
	FROM t LEFT JOIN e a ON a.id = $2::bytea, LATERAL (SELECT CASE
		WHEN (a.token = $3::bigint AND a.token <> 0 AND a.expires > t.now
			AND a.broken = '' --mutant:pg-change-broken
			) IS NOT TRUE THEN 'L'
		WHEN a.lim <> {full} OR a.weight <> 536870913 AND a.fence = 0 THEN 'I' -- not granted as upgradeable
		ELSE '' END AS verdict) k
), c AS MATERIALIZED (
	SELECT e.o, e.id, e.lim, CASE WHEN m.m THEN least(e.weight, $5::int) ELSE e.weight END AS weight,
		CASE WHEN m.m THEN $5::int ELSE e.want END AS want, --mutant:pg-want
		CASE WHEN m.m THEN $4::int ELSE e.turn END AS turn,
		e.n, e.shown, e.token, e.fence, e.since, e.expires, e.keep, e.delay, e.broken, e.owner, e.session,
		CASE WHEN m.m THEN CASE WHEN $5::int > e.weight THEN $6::bytea ELSE ''::bytea END ELSE e.asks END AS asks, false AS gone, false AS fresh
	FROM v, e, LATERAL (SELECT v.changed AND e.o = v.own AS m) m
)
--@ settle.sql
