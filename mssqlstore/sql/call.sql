--@ head.sql
UPDATE {sessions} SET calls=calls+1 WHERE id=@id;
