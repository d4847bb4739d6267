--@ head.sql
--@ rows.sql
INSERT INTO @rows (name,rev) SELECT TOP (@page) id,0 FROM {sessions} WHERE expires<=@now;
SELECT name,rev FROM @rows;
