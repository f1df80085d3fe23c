export const sql = `
  CREATE TABLE services (
    id TEXT PRIMARY KEY,
    owner TEXT NOT NULL,
    name TEXT NOT NULL,
    state TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    -- The version that requests go to.
    current INTEGER,
    settings TEXT NOT NULL,
    UNIQUE (owner, name)
  ) STRICT;

  CREATE TABLE service_versions (
    service_id TEXT NOT NULL,
    version INTEGER NOT NULL,
    state TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    plan TEXT NOT NULL,
    -- The template that was built for it.
    built_template TEXT,
    -- The state in which its program is ready.
    ready TEXT,
    error TEXT,
    PRIMARY KEY (service_id, version)
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE service_replicas (
    sandbox_id TEXT PRIMARY KEY,
    service_id TEXT NOT NULL,
    version INTEGER NOT NULL,
    is_ready INTEGER NOT NULL,
    -- Processes that its program has had, oldest first.
    process_ids TEXT NOT NULL,
    restarts INTEGER NOT NULL,
    created_at INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;

  -- Clients that must reach the same replica again.
  CREATE TABLE service_sessions (
    service_id TEXT NOT NULL,
    session TEXT NOT NULL,
    sandbox_id TEXT NOT NULL,
    used_at INTEGER NOT NULL,
    PRIMARY KEY (service_id, session)
  ) STRICT, WITHOUT ROWID;
`
