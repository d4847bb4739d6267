--@ head.sql
--@ name.sql
--@ rows.sql
INSERT INTO @rows SELECT TOP (@page) name,form,rev,taken,data,inbox FROM {locks} WHERE idle=0 AND name>@key
AND written<=(@now-@age)/@tick*@tick --mutant:mssql-young-listed
ORDER BY name;
SELECT @now,name,form,rev,taken,data,inbox FROM @rows ORDER BY name;
