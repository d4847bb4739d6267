-- For how long the sessions go on, in µs, and when they expire: 0 is for good. Of
-- one that is not there is no row. $1 their ids, an array as text.
SELECT id, expires - {now}, expires FROM {sessions} WHERE id = ANY ($1::text::bytea[])
