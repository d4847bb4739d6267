SET ANSI_PADDING ON;
IF OBJECT_ID(N'{locks}',N'U') IS NULL
CREATE TABLE {locks} (
[name] varbinary(513) NOT NULL PRIMARY KEY, -- with a byte 1 behind it
[form] smallint NOT NULL,
[rev] bigint NOT NULL, -- another random number by each swap
[taken] bigint NOT NULL, -- bytes of notes that were taken in
[idle] tinyint NOT NULL,
[written] bigint NOT NULL, -- when, about
[data] varbinary(max) NOT NULL,
[inbox] varchar(max) NOT NULL, -- in hexadecimal
UNIQUE ([written],[name]) -- in the order of written, to find what is old
);
IF OBJECT_ID(N'{sessions}',N'U') IS NULL
CREATE TABLE {sessions} (
[id] varbinary(8) NOT NULL PRIMARY KEY,
[expires] bigint NOT NULL, -- 0: it has ended for good
[ttl] bigint NOT NULL,
[calls] bigint NOT NULL
);
