export const sql = `
  CREATE TABLE runs (
    id INTEGER PRIMARY KEY,
    sandbox_id TEXT NOT NULL,
    run_id TEXT NOT NULL,
    context TEXT NOT NULL,
    language TEXT NOT NULL,
    idempotency_key TEXT,
    -- Of the request, so that a key used for another one is noticed.
    request_hash TEXT,
    state TEXT NOT NULL,
    started_at INTEGER NOT NULL,
    finished_at INTEGER,
    exit_code INTEGER
  ) STRICT;
  CREATE UNIQUE INDEX run_ids ON runs (sandbox_id, run_id);
  CREATE UNIQUE INDEX run_keys ON runs (sandbox_id, idempotency_key) WHERE idempotency_key IS NOT NULL;
  CREATE INDEX open_runs ON runs (sandbox_id) WHERE state IN ('queued', 'running');

  CREATE TABLE events (
    run INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    seq INTEGER NOT NULL,
    event TEXT NOT NULL,
    PRIMARY KEY (run, seq)
  ) STRICT, WITHOUT ROWID;
`
