export const sql = `
  -- What clients of E2B know of a sandbox: tokens, times and options, as JSON.
  CREATE TABLE e2b_sandboxes (
    sandbox_id TEXT PRIMARY KEY REFERENCES sandboxes (id) ON DELETE CASCADE,
    record TEXT NOT NULL
  ) STRICT, WITHOUT ROWID;
  -- Tokens of volumes, metadata of secrets, and other small things of a key that only clients of E2B know.
  CREATE TABLE e2b_items (
    kind TEXT NOT NULL,
    owner TEXT NOT NULL,
    name TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (kind, owner, name)
  ) STRICT, WITHOUT ROWID;
`
