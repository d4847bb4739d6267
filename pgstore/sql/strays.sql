-- The entries that sessions keep. $1 their ids, an array as text. Writes nothing, and waits for nothing.
SELECT t.name, u.id FROM {table} t, LATERAL unnest(t.id, t.session) AS u(id, session)
WHERE t.form = 2 AND u.session = ANY ($1::text::bytea[])
