SET ANSI_PADDING ON;
IF OBJECT_ID(N'{locks}',N'U') IS NULL
CREATE TABLE {locks} (
[name] varbinary(513) NOT NULL PRIMARY KEY, -- followed by a byte 1
[form] smallint NOT NULL,
[rev] bigint NOT NULL, -- a new random number with each swap
[taken] bigint NOT NULL, -- bytes of notes taken in
[idle] tinyint NOT NULL,
[written] bigint NOT NULL, -- when, roughly
[data] varbinary(max) NOT NULL,
[inbox] varchar(max) NOT NULL, -- in hexadecimal
UNIQUE ([written],[name]) -- ordered by written, to find old rows
);
IF OBJECT_ID(N'{sessions}',N'U') IS NULL
CREATE TABLE {sessions} (
[id] varbinary(8) NOT NULL PRIMARY KEY,
[expires] bigint NOT NULL, -- 0: it has ended for good
[ttl] bigint NOT NULL,
[calls] bigint NOT NULL
);
