--@ head.sql
--@ name.sql
DELETE FROM {sessions} WHERE id=@key AND expires<=@now;
