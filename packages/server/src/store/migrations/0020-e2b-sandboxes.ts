export const sql = `
  -- What clients of E2B know of a sandbox: tokens, times and options, as JSON.
  CREATE TABLE e2b_sandboxes (
    sandbox_id TEXT PRIMARY KEY REFERENCES sandboxes (id) ON DELETE CASCADE,
    record TEXT NOT NULL
  ) STRICT, WITHOUT ROWID;
`
