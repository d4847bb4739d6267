-- Returns which holds are in their rows as their owner knows them, and, for the first claim that asks them to give up (another hold with
-- a pending upgrade, or a waiter), the reason and the session that keeps it. $1 names, $2 ids, $3 tokens, $4 the sessions that
-- keep the holds: arrays as text. Writes nothing and waits for nothing.
SELECT h.i, coalesce(a.asks, ''), coalesce(a.session, '') FROM unnest($1::text::bytea[], $2::text::bytea[], $3::text::bigint[], $4::text::bytea[])
	WITH ORDINALITY AS h(name, id, token, session, i)
	JOIN {table} t ON t.name = h.name
	LEFT JOIN LATERAL (SELECT k.asks, k.session FROM unnest(t.id, t.weight, t.want, t.token, t.expires, t.session, t.asks) WITH ORDINALITY AS k(id, weight, want, token, expires, session, asks, o)
		WHERE '' <> ANY (t.asks) AND (k.token = 0 OR k.want > k.weight) AND k.asks <> '' AND k.expires > {now}
			AND k.id <> h.id --mutant:pg-upgrade-asks-itself
		ORDER BY k.o LIMIT 1) a ON true
WHERE t.form = 2 AND t.token[p(t.id, h.id)] = h.token AND t.session[p(t.id, h.id)] = h.session AND t.broken[p(t.id, h.id)] = ''
