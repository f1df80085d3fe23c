export const sql = `
  -- Tokens of volumes, metadata of secrets, and other small things of a key that only clients of E2B know.
  CREATE TABLE e2b_items (
    kind TEXT NOT NULL,
    owner TEXT NOT NULL,
    name TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (kind, owner, name)
  ) STRICT, WITHOUT ROWID;
`
