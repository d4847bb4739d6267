-- w, about the waiters in sessions: first, which of them is first, and skipped, how many of the others are ahead of the id $2.
	LATERAL (SELECT coalesce(array_position(t.id, $2::bytea), cardinality(t.id) + 1) AS own OFFSET 0) p,
	LATERAL (SELECT min(k.o) AS first, greatest(
			count(*) FILTER (WHERE k.o < p.own) --mutant:pg-those-ahead-are-counted
			- 1, 0) AS skipped
		FROM unnest(t.token, t.session) WITH ORDINALITY AS k(token, session, o) WHERE k.token = 0 AND k.session <> '') w
