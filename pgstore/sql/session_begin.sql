-- Begins a session. $1 id, $2 TTL in µs. It returns the time, and since when the server runs.
INSERT INTO {sessions} (id, expires, ttl, calls) VALUES ($1::bytea, {now} + $2::bigint, $2::bigint, 0)
RETURNING {now}, {started}, {durable}
