export const sql = `
  -- This host in its cluster. One row.
  CREATE TABLE host (
    id TEXT PRIMARY KEY,
    is_cordoned INTEGER NOT NULL DEFAULT 0
  ) STRICT;
`
