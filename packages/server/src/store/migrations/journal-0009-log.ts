export const sql = `
  -- The number of the last change of journal.log that is in this database.
  CREATE TABLE applied (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    change INTEGER NOT NULL
  ) STRICT;
  INSERT INTO applied VALUES (1, 0);
`
