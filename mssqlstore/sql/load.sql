--@ head.sql
--@ name.sql
-- Into variables first, so that the row is no longer locked while a slow client reads the answer.
DECLARE @have smallint,@rev bigint,@taken bigint,@data varbinary(max),@inbox varchar(max);
SELECT @have=form,@rev=rev,@taken=taken,@data=data,@inbox=inbox FROM {locks} WHERE name=@key;
SELECT @now,@key,@have,@rev,@taken,@data,@inbox;
