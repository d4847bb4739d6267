-- For how long a session goes on, as it is once nobody else writes it. In a transaction that sees all as it was when it began
-- a session that was written since is a serialization failure. $1 id.
SELECT CASE WHEN expires > 0 THEN expires - {now} ELSE 0 END FROM {sessions} WHERE id = $1::bytea
FOR SHARE --mutant:pg-held-session-as-it-is
