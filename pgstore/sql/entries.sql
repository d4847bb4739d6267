-- What every operation begins with. The row is locked first and alone, so that
-- what follows sees it as it is once nobody else works on it, and the time as
-- it is then. All that is decided on is in this one row: another would be read
-- as it was before the wait. So {ended} has the sessions that have ended, which
-- was made final by a statement before, and {ago} for how long. What they kept expired then, and so did an entry whose own id
-- is in it, or that with its session behind: as long as it is there.
WITH found AS (
	SELECT * FROM {table} WHERE name = $1::bytea
	FOR UPDATE --mutant:pg-row-lock
), t AS MATERIALIZED (
	SELECT *, {now} AS now, {sane} AS sane FROM found
), e AS MATERIALIZED (
	SELECT u.o, u.id, u.lim, u.weight, u.want, u.turn, u.n, u.shown, u.token, u.fence, u.since,
		least(u.expires, t.now - ({ago})[k.ended]) AS expires, u.keep, u.delay, u.broken, u.owner,
		CASE WHEN k.ended > 0 THEN ''::bytea ELSE u.session END AS session, u.asks, k.ended IS NOT NULL AS ended
	FROM t, LATERAL {unnest t}, LATERAL (SELECT coalesce(array_position({ended}, u.id), array_position({ended}, u.id || u.session), array_position({ended}, nullif(u.session, ''))) AS ended) k
	WHERE t.sane
)
