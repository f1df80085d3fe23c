export const sql = `
  -- Sign-ins of the page. The cookie has a random token; this has its SHA-256.
  CREATE TABLE sessions (
    token_sha256 BLOB PRIMARY KEY,
    key_id TEXT NOT NULL,
    expires_at_ms INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;
`
