-- Releases a hold, or with token 0 all that the id has. $1 name, $2 id,
-- $3 token, $4 the newest token used of its block, or 0; $5 whether watchers of the name are notified.
--@ entries.sql
, v AS MATERIALIZED (
	SELECT t.now, t.form, t.sane, CASE WHEN k.back THEN
			$4::bigint --mutant:pg-release-unused
			ELSE t.last END AS last,
		cardinality(t.id) AS count,
		NULL::bigint AS ttl, false AS try, false AS tell, false AS asks, $5::boolean AS announces,
		coalesce(k.its AND a.token <> 0, false) --mutant:pg-release-is-news
		AS news, a.o AS own, a.broken AS reason,
		CASE WHEN $3::bigint = 0 OR k.its
			AND NOT {freed a} --mutant:pg-freed-given-back
			THEN '' ELSE 'L' END AS verdict, k.its AS changed, k.back
	FROM t LEFT JOIN e a ON a.id = $2::bytea,
	LATERAL (SELECT coalesce(a.expires > t.now AND ($3::bigint = 0
		OR a.token = $3::bigint --mutant:pg-release-token
	), false) AS its) j,
	LATERAL (SELECT j.its, j.its AND NOT {freed a} AND $3::bigint <> 0 AND $4::bigint >= a.token AND $4::bigint < t.last AND t.last = a.token + a.n - 1 AS back) k
), c AS MATERIALIZED (
	-- Expired entries are dropped below, unless a minimum hold still blocks the name.
	-- With token 0 the owner never used the hold, so there is no minimum.
	SELECT e.o, e.id, e.lim, e.weight, e.want, e.turn, CASE WHEN m.m AND v.back THEN (v.last - e.token + 1)::int ELSE e.n END AS n,
		CASE WHEN m.m THEN $3::bigint <> 0 ELSE e.shown END AS shown, e.token, e.fence, e.since,
		CASE WHEN m.m THEN v.now ELSE e.expires END AS expires, e.keep,
		CASE WHEN m.m THEN 0 ELSE e.delay END AS delay, --mutant:pg-release-delay
		e.broken, e.owner, CASE WHEN m.m THEN ''::bytea ELSE e.session END AS session, e.asks,
		m.m AND {freed e} AS gone, --mutant:pg-freed-given-back-dropped
		false AS fresh
	FROM v, e, LATERAL (SELECT v.changed AND e.o = v.own AS m) m
)
--@ settle.sql
