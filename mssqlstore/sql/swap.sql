--@ head.sql
--@ name.sql
DECLARE @told int=0,@left bigint=0;
DECLARE @done TABLE (size bigint);
UPDATE {locks} SET rev=@rev,taken=@taken,idle=@idle,written=@now/@tick*@tick,data=CONVERT(varbinary(max),@data,2),
inbox='00'+SUBSTRING(inbox,2*@cut+1,2147483647) --mutant:mssql-notes-go
OUTPUT DATALENGTH(inserted.inbox)/2-1 INTO @done
WHERE name=@key
AND rev=@old; --mutant:mssql-swap-depends
SELECT @told=2,@left=size FROM @done;
--@ join.sql
SELECT @told,@left;
