IF @told=0 AND @join=1
BEGIN
UPDATE {locks} SET inbox=inbox+@notes WHERE name=@key AND form=@form AND DATALENGTH(inbox)<2*@room;
IF @@ROWCOUNT=1 SET @told=1;
END;
