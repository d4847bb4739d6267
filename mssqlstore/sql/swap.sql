--@ head.sql
--@ name.sql
DECLARE @told int=0,@left bigint=0;
UPDATE {locks} SET @told=2,@left=DATALENGTH(inbox)-@cut,rev=@rev,taken=@taken,idle=@idle,written=@now/@tick*@tick,data=CONVERT(varbinary(max),@data,2),
inbox=0x00+SUBSTRING(inbox,@cut+1,2147483647) --mutant:mssql-notes-go
WHERE name=@key
AND rev=@old; --mutant:mssql-swap-depends
--@ join.sql
SELECT @told,@left;
