-- Extends a hold, and stores what else its owner passes.
-- $1 name, $2 id, $3 token, $4 TTL, $5 the newest token used of its block, or
-- 0, $6 another owner, $7 another id; '' if there is none. $8 the session that
-- keeps it from now on, or '' for an expiry of its own; $9 those that it may be
-- in, '' for none; $10 whether its owner has used the token; $11 whether watchers of the name are notified. A hold that gets another id and is in none of these sessions stays in its own,
-- whose owner must still be called.
--@ entries.sql
, v AS MATERIALIZED (
	SELECT t.now, t.form, t.sane, t.last, cardinality(t.id) AS count,
		$4::bigint AS ttl, false AS try, true AS tell, false AS asks, $11::boolean AS announces, coalesce(
			$6::bytea <> '' AND a.owner <> $6::bytea OR --mutant:pg-note-is-news
			$7::bytea <> '' AND a.id <> $7::bytea OR --mutant:pg-another-id-is-news
			a.token + a.turn < $5::bigint, false) AS news, a.o AS own, a.broken AS reason,
		CASE WHEN a.token = $3::bigint AND a.token <> 0
			AND a.expires > t.now --mutant:pg-renew-expired
			AND a.broken = '' --mutant:pg-renew-broken
			AND (k.ours OR $7::bytea <> '') --mutant:pg-renew-kept-by-another
			THEN '' ELSE 'L' END AS verdict,
		coalesce(a.token = $3::bigint AND a.token <> 0 AND a.expires > t.now
			AND a.broken = '' --mutant:pg-renew-broken-changed
			AND (k.ours OR $7::bytea <> '')
			, false) AS changed, k.ours
	-- If the entry has the other id already, the reply to an earlier renewal was lost.
	FROM t LEFT JOIN e a ON a.id = CASE WHEN $7::bytea = ANY (t.id) THEN $7::bytea ELSE $2::bytea END,
	LATERAL (SELECT a.session = ANY ($9::text::bytea[]) AS ours) k
), c AS MATERIALIZED (
	SELECT e.o, CASE WHEN m.m AND $7::bytea <> '' THEN $7::bytea ELSE e.id END AS id, e.lim, e.weight, e.want,
		CASE WHEN m.m AND e.token < $5::bigint AND $5::bigint < e.token + e.n THEN greatest(e.turn, ($5::bigint - e.token)::int) ELSE e.turn END AS turn,
		e.n, e.shown OR m.m AND $10::boolean AS shown, e.token, e.fence, e.since, 
		CASE WHEN NOT m.m OR NOT v.ours THEN e.expires WHEN $8::bytea <> '' THEN {unending}
			ELSE greatest(CASE WHEN
				e.session = '' --mutant:pg-renew-out-of-a-session
				THEN e.expires END, v.now + v.ttl) END AS expires,
		e.keep, e.delay, e.broken, CASE WHEN m.m AND $6::bytea <> '' THEN $6::bytea ELSE e.owner END AS owner,
		CASE WHEN m.m AND v.ours THEN $8::bytea ELSE e.session END AS session, e.asks, false AS gone, false AS fresh
	FROM v, e, LATERAL (SELECT v.verdict = '' AND e.o = v.own AS m) m
)
--@ settle.sql
