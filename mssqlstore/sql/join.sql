IF @told=0 AND @join=1
UPDATE {locks} SET @told=1,inbox=inbox+CONVERT(varbinary(max),@notes,2) WHERE name=@key AND form=@form AND DATALENGTH(inbox)<@room;
