-- Into a table of its own first: what is answered has no row locked, however slowly it is taken.
DECLARE @rows TABLE (name varbinary(513),form smallint,rev bigint,taken bigint,data varbinary(max),inbox varchar(max));
