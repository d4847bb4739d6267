-- Releases a hold that is alone on its name and of which nothing stays to
-- block. $1 name, $2 id, $3 token, $4 the newest token used of its block, or 0,
-- $5 whether a session keeps it, $6 whether watchers of the name are notified.
--
-- It need not wait for the disk: the next grant of the name does, which comes after this in the
-- log. If a session keeps the hold, it would not expire by itself
-- if the release were lost, so that release does wait.
UPDATE {table} SET
	last = CASE WHEN $4::bigint >= token[1] AND $4::bigint < last AND last = token[1] + n[1] - 1 THEN $4::bigint ELSE last END,
	id = '{}', lim = '{}', weight = '{}', want = '{}', turn = '{}', n = '{}', shown = '{}', token = '{}', fence = '{}',
	since = '{}', expires = '{}', keep = '{}', delay = '{}', broken = '{}', owner = '{}', session = '{}', asks = '{}'
WHERE name = $1::bytea AND id = ARRAY[$2::bytea]
	AND form = 2 --mutant:pg-release-fast-form
	AND token = ARRAY[$3::bigint] --mutant:pg-release-fast-token
	AND broken[1] = '' --mutant:pg-release-fast-freed
	AND expires[1] > {now}
	AND since[1] + keep[1] <= {now} --mutant:pg-release-fast-keep
RETURNING false, concat(CASE WHEN
	$5::boolean THEN {durable} ELSE set_config('synchronous_commit', 'off', true) END, --mutant:pg-release-kept-is-durable
	CASE WHEN
		$6::boolean --mutant:pg-release-fast-announced
		THEN pg_notify({channel $1}, '')::text END)
