-- The beginning of every operation. The row is locked first and alone, so that
-- what follows sees the row, and the time, as they are once no one else works on it.
-- All decisions depend on this one row: another row would be read
-- as it was before the wait. So {ended} has the sessions that have ended, which
-- an earlier statement has made final, and {ago} for how long they have. The entries that they kept expired at that time, and so did an entry
-- if {ended} has its own id, or its id followed by its session.
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
