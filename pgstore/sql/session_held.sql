-- Whether a session lives, in the transaction of a caller. $1 id.
SELECT expires > {now} FROM {sessions} WHERE id = $1::bytea
