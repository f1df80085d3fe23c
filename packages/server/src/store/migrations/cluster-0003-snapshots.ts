export const sql = `
  -- Snapshots on this host that all hosts know of. One that is missing in the cluster was deleted by another host.
  CREATE TABLE shared_snapshots (
    id TEXT PRIMARY KEY,
    -- The shared state in which it is known.
    state_id TEXT NOT NULL
  ) STRICT, WITHOUT ROWID;
`
