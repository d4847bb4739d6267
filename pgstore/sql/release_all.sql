-- Releases holds that are alone on their names and of which nothing stays to block:
-- release_fast for many. A locked row is left for the full
-- statement: no hold waits for another's name, and no two of these statements wait for
-- each other. $1 names, $2 ids, $3 tokens, $4 newest tokens used: arrays as text;
-- $5 whether a session keeps any; $6 for each whether watchers of the name are notified, an array as text.
WITH h AS MATERIALIZED (
	SELECT * FROM unnest($1::text::bytea[], $2::text::bytea[], $3::text::bigint[], $4::text::bigint[], $6::text::boolean[])
		WITH ORDINALITY AS h(name, id, token, used, announces, i)
), free AS MATERIALIZED (
	SELECT t.name FROM {table} t WHERE t.name IN (SELECT name FROM h) FOR UPDATE SKIP LOCKED
)
UPDATE {table} AS t SET
	last = CASE WHEN h.used >= t.token[1] AND h.used < t.last AND t.last = t.token[1] + t.n[1] - 1 THEN h.used ELSE t.last END,
	id = '{}', lim = '{}', weight = '{}', want = '{}', turn = '{}', n = '{}', shown = '{}', token = '{}', fence = '{}',
	since = '{}', expires = '{}', keep = '{}', delay = '{}', broken = '{}', owner = '{}', session = '{}', asks = '{}'
FROM h
WHERE h.name = t.name AND h.name IN (SELECT name FROM free)
	AND t.form = 2 --mutant:pg-release-all-form
	AND t.id = ARRAY[h.id] AND t.token = ARRAY[h.token] AND h.token <> 0
	AND t.broken[1] = '' --mutant:pg-release-all-freed
	AND t.expires[1] > {now} AND t.since[1] + t.keep[1] <= {now}
RETURNING h.i, concat(CASE WHEN $5::boolean THEN {durable} ELSE set_config('synchronous_commit', 'off', true) END, CASE WHEN
	h.announces --mutant:pg-release-all-announced
	THEN pg_notify({channel h.name}, '')::text END)
