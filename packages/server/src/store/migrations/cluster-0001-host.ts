export const sql = `
  -- This host in its cluster. One row.
  CREATE TABLE host (
    id TEXT PRIMARY KEY,
    is_cordoned INTEGER NOT NULL DEFAULT 0
  ) STRICT;

  -- Sandboxes that the directory of the cluster has had an entry for. One that has none any more was deleted elsewhere.
  CREATE TABLE published (
    sandbox_id TEXT PRIMARY KEY
  ) STRICT;
`
