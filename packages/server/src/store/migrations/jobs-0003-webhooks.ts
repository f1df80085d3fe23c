export const sql = `
  -- The newest events of the server that readers may come back for.
  CREATE TABLE events (
    seq INTEGER PRIMARY KEY,
    type TEXT NOT NULL,
    owner TEXT,
    sandbox_id TEXT,
    at INTEGER NOT NULL,
    data TEXT NOT NULL
  ) STRICT;

  CREATE TABLE webhooks (
    id TEXT PRIMARY KEY,
    owner TEXT NOT NULL,
    name TEXT NOT NULL,
    url TEXT NOT NULL,
    -- JSON: types of events, and the id of a sandbox or null.
    events TEXT NOT NULL,
    sandbox_id TEXT,
    enabled INTEGER NOT NULL,
    -- Encrypted. The former one also signs until former_until.
    secret BLOB NOT NULL,
    former_secret BLOB,
    former_until INTEGER,
    created_at INTEGER NOT NULL,
    UNIQUE (owner, name)
  ) STRICT;

  CREATE TABLE webhook_deliveries (
    id TEXT PRIMARY KEY,
    webhook_id TEXT NOT NULL REFERENCES webhooks (id) ON DELETE CASCADE,
    seq INTEGER NOT NULL,
    type TEXT NOT NULL,
    body TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('pending', 'delivered', 'failed')),
    attempts INTEGER NOT NULL DEFAULT 0,
    next_at INTEGER NOT NULL,
    status INTEGER,
    error TEXT,
    created_at INTEGER NOT NULL,
    finished_at INTEGER
  ) STRICT;
  CREATE INDEX webhook_deliveries_due ON webhook_deliveries (next_at) WHERE state = 'pending';
  CREATE INDEX webhook_deliveries_newest ON webhook_deliveries (webhook_id, created_at, id);
`
