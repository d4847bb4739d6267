--@ head.sql
UPDATE {sessions} SET expires=0 WHERE id=@id;
