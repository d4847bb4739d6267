--@ head.sql
SELECT TOP (@page) name,rev FROM {locks} WHERE idle=1
AND written<(@now-@age)/@tick*@tick --mutant:mssql-sweep-old
ORDER BY written;
