/** API keys. A revoked key keeps its row: what it owns is still its own, and its id is never given to another. */
export const sql = `
  CREATE TABLE keys (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    secret_sha256 BLOB NOT NULL,
    scopes TEXT NOT NULL,
    max_sandboxes INTEGER,
    max_running INTEGER,
    max_memory_bytes INTEGER,
    max_disk_bytes INTEGER,
    rate_per_second REAL,
    rate_burst INTEGER,
    created_at_ms INTEGER NOT NULL,
    revoked_at_ms INTEGER
  ) STRICT;
`
