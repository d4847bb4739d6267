-- Renews holds of names on which no entry has expired, as then
-- no waiter can be granted. A locked row is left for the full
-- statement: no hold waits for another's name, and no two renewals wait for each
-- other. $1 names, $2 ids, $3 tokens, $4 TTLs, $5 newest tokens used, $6 owners
-- or '', $7 sessions that keep them from now on, or '' for an expiry of their own:
-- $8 those that keep them now: arrays as text. It returns whether some claim may ask a holder to give up.
WITH h AS MATERIALIZED (
	SELECT * FROM unnest($1::text::bytea[], $2::text::bytea[], $3::text::bigint[], $4::text::bigint[], $5::text::bigint[], $6::text::bytea[], $7::text::bytea[], $8::text::bytea[])
		WITH ORDINALITY AS h(name, id, token, ttl, used, owner, session, kept, i)
), free AS MATERIALIZED (
	SELECT t.name FROM {table} t WHERE t.name IN (SELECT name FROM h)
	FOR UPDATE SKIP LOCKED --mutant:pg-renew-fast-skips
)
UPDATE {table} AS t SET
	kept = greatest(t.kept, {now} + {day} +
		h.ttl + t.delay[p(t.id, h.id)] --mutant:pg-kept-renewed
		),
	expires[p(t.id, h.id)] = CASE WHEN h.session <> '' THEN {unending} ELSE
		greatest(CASE WHEN
			t.session[p(t.id, h.id)] = '' --mutant:pg-renew-fast-out-of-a-session
			THEN t.expires[p(t.id, h.id)] END, {now} + h.ttl) --mutant:pg-renew-fast-expiry
		END,
	session[p(t.id, h.id)] = h.session,
	shown[p(t.id, h.id)] = true,
	turn[p(t.id, h.id)] = CASE WHEN t.token[p(t.id, h.id)] < h.used AND h.used < t.token[p(t.id, h.id)] + t.n[p(t.id, h.id)]
		THEN greatest(t.turn[p(t.id, h.id)], (h.used - t.token[p(t.id, h.id)])::int) ELSE t.turn[p(t.id, h.id)] END,
	owner[p(t.id, h.id)] = CASE WHEN h.owner = '' THEN t.owner[p(t.id, h.id)] ELSE h.owner END
FROM h
WHERE h.name = t.name AND h.name IN (SELECT name FROM free)
	AND t.form = 2 --mutant:pg-renew-fast-form
	AND t.token[p(t.id, h.id)] = h.token AND h.token <> 0
	AND t.broken[p(t.id, h.id)] = '' --mutant:pg-renew-fast-broken
	AND t.session[p(t.id, h.id)] IN (h.kept, h.session, '') --mutant:pg-renew-fast-kept-by-another
	AND {now} < ALL (t.expires)
RETURNING h.i, t.weight[p(t.id, h.id)], t.want[p(t.id, h.id)], t.fence[p(t.id, h.id)], '' <> ANY (t.asks), {durable}
