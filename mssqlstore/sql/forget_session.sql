--@ head.sql
DELETE FROM {sessions} WHERE id=@id AND expires<=@now;
