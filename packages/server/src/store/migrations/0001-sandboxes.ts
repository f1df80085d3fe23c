/** Times are milliseconds since 1970; objects are JSON. */
export const sql = `
  CREATE TABLE sandboxes (
    id TEXT PRIMARY KEY,
    owner TEXT NOT NULL,
    name TEXT,
    template TEXT NOT NULL,
    state TEXT NOT NULL,
    tier TEXT,
    -- The snapshot that it comes back from; none: from its template.
    head TEXT,
    forked_from TEXT,
    env TEXT NOT NULL,
    limits TEXT NOT NULL,
    volumes TEXT NOT NULL,
    metadata TEXT NOT NULL,
    idle_timeout_ms INTEGER NOT NULL,
    store_after_ms INTEGER NOT NULL,
    expires TEXT,
    ephemeral INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    last_active_at INTEGER NOT NULL,
    state_since INTEGER NOT NULL,
    lost_since INTEGER
  ) STRICT;
  CREATE UNIQUE INDEX sandbox_names ON sandboxes (owner, name) WHERE name IS NOT NULL;
  CREATE INDEX sandbox_heads ON sandboxes (head);

  -- What is being done to a sandbox and has not come to an end: at most one thing at a time.
  CREATE TABLE intents (
    sandbox_id TEXT PRIMARY KEY REFERENCES sandboxes (id) ON DELETE CASCADE,
    kind TEXT NOT NULL,
    since INTEGER NOT NULL
  ) STRICT;

  CREATE TABLE snapshots (
    id TEXT PRIMARY KEY,
    sandbox_id TEXT NOT NULL,
    owner TEXT NOT NULL,
    name TEXT,
    kind TEXT NOT NULL,
    parent TEXT,
    template TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    -- Somebody asked for it: it stays until somebody deletes it. The others go when no sandbox comes back from them.
    is_kept INTEGER NOT NULL,
    image_bytes INTEGER NOT NULL,
    memory_bytes INTEGER NOT NULL
  ) STRICT;
  CREATE INDEX snapshots_of_sandbox ON snapshots (sandbox_id);

  CREATE TABLE ledger (
    sandbox_id TEXT NOT NULL REFERENCES sandboxes (id) ON DELETE CASCADE,
    seq INTEGER NOT NULL,
    at INTEGER NOT NULL,
    event TEXT NOT NULL,
    cause TEXT NOT NULL,
    tier TEXT,
    latency_ms REAL,
    bytes INTEGER,
    detail TEXT,
    PRIMARY KEY (sandbox_id, seq)
  ) STRICT, WITHOUT ROWID;
`
