-- Which of the holds stand in their rows as their owner knows them. $1 names, $2 ids, $3 tokens, $4 the sessions that
-- keep them: arrays as text. Writes nothing, and waits for nothing.
SELECT h.i FROM unnest($1::text::bytea[], $2::text::bytea[], $3::text::bigint[], $4::text::bytea[])
	WITH ORDINALITY AS h(name, id, token, session, i)
	JOIN {table} t ON t.name = h.name
WHERE t.form = 2 AND t.token[p(t.id, h.id)] = h.token AND t.session[p(t.id, h.id)] = h.session AND t.broken[p(t.id, h.id)] = ''
