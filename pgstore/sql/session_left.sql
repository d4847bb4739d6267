-- Returns how long sessions last, in µs, and whether they have ended for good: then how long ago. A session that is missing
-- has no row. $1 their ids, an array as text.
SELECT id, CASE WHEN expires > 0 THEN expires - {now} ELSE -{over} END, expires <= 0 FROM {sessions} WHERE id = ANY ($1::text::bytea[])
