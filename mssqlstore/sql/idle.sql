--@ head.sql
--@ rows.sql
INSERT INTO @rows (name,rev) SELECT TOP (@page) name,rev FROM {locks} WHERE idle=1
AND written<(@now-@age)/@tick*@tick --mutant:mssql-sweep-old
ORDER BY written;
SELECT name,rev FROM @rows;
