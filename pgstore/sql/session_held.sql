-- Returns how long a session lasts, once no one else is writing it. In a transaction that sees everything as it was when it began,
-- a session written since is a serialization failure. $1 id.
SELECT CASE WHEN expires > 0 THEN expires - {now} ELSE 0 END FROM {sessions} WHERE id = $1::bytea
FOR SHARE --mutant:pg-held-session-as-it-is
