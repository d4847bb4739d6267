-- Into a table variable first, so that no row is locked while a slow client reads the answer.
DECLARE @rows TABLE (name varbinary(513),form smallint,rev bigint,taken bigint,data varbinary(max),inbox varchar(max));
