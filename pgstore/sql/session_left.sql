-- For how long the sessions go on, in µs, and whether their ends are final: then for how long they have been over. Of
-- one that is not there is no row. $1 their ids, an array as text.
SELECT id, CASE WHEN expires > 0 THEN expires - {now} ELSE -{over} END, expires <= 0 FROM {sessions} WHERE id = ANY ($1::text::bytea[])
