-- Appends a claim of the whole limit behind others, none of which has expired: it has to wait for any of them,
-- and nothing else must be done. (If all of them are freed, the caller sees that and asks again.) ask.sql does the same, at several times the cost, and in a crowd most asks are of this kind.
-- $1 name, $2 id, $3 limit, $4 how many tokens, $5 minimum hold, $6 lock delay, $7 owner, $8 the
-- session that keeps the position, $9 when it is too late to take one. The row is locked
-- first, and the time is read once it is: if a statement waits for a row that is not changed meanwhile, PostgreSQL tests
-- no condition again. Conditions that do not depend on the lock may be tested before it.
WITH f AS MATERIALIZED (
	SELECT name FROM {table} WHERE name = $1::bytea
	FOR UPDATE --mutant:pg-ask-behind-lock
), l AS MATERIALIZED (
	SELECT name, {now} AS now FROM f
), j AS (
	UPDATE {table} AS t SET
		kept = greatest(t.kept, {now} + $6::bigint + {day}),
		id = array_append(t.id, $2::bytea), lim = array_append(t.lim, $3::int), weight = array_append(t.weight, $3::int), want = array_append(t.want, $3::int),
		turn = array_append(t.turn, 0), n = array_append(t.n, $4::int), shown = array_append(t.shown, false),
		token = array_append(t.token, 0::bigint), fence = array_append(t.fence, 0::bigint), since = array_append(t.since, 0::bigint),
		expires = array_append(t.expires, {unending}), keep = array_append(t.keep, $5::bigint), delay = array_append(t.delay, $6::bigint),
		broken = array_append(t.broken, ''::bytea), owner = array_append(t.owner, $7::bytea), session = array_append(t.session, $8::bytea),
		asks = array_append(t.asks, ''::bytea)
	FROM l WHERE t.name = l.name AND {sane t}
		AND $3::int = ALL (lim) --mutant:pg-ask-behind-limit
		AND id <> '{}' --mutant:pg-ask-behind-nobody
		AND $2::bytea <> ALL (id) --mutant:pg-ask-behind-itself
		AND l.now < ALL (expires) --mutant:pg-ask-behind-expired
		AND l.now < $9::bigint --mutant:pg-ask-behind-late
	RETURNING t.*, {now} AS now, {durable} AS durable
)
SELECT t.now, t.form, true, t.last, {entry u}, NULL::bigint, w.skipped, t.durable
FROM j t,
--@ waiting.sql
	, LATERAL {unnest t}
WHERE {ahead}
ORDER BY u.o
