export const sql = `
  -- The variables that contexts had when a snapshot was taken, as JSON. A sleeping sandbox shows them.
  CREATE TABLE snapshot_variables (
    snapshot_id TEXT PRIMARY KEY REFERENCES snapshots (id) ON DELETE CASCADE,
    recorded_at INTEGER NOT NULL,
    contexts TEXT NOT NULL
  ) STRICT, WITHOUT ROWID;
`
