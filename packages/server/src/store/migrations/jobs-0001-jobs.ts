export const sql = `
  CREATE TABLE jobs (
    id TEXT PRIMARY KEY,
    owner TEXT NOT NULL,
    name TEXT,
    -- starting: its caller has no answer yet, and the next server removes it.
    state TEXT NOT NULL CHECK (state IN ('starting', 'running', 'cancelling', 'finished', 'cancelled')),
    request TEXT NOT NULL,
    -- The snapshot that its sandboxes start from, and whether it was taken for this job.
    snapshot_id TEXT,
    owns_snapshot INTEGER NOT NULL DEFAULT 0,
    priority INTEGER NOT NULL,
    total INTEGER NOT NULL,
    succeeded INTEGER NOT NULL DEFAULT 0,
    failed INTEGER NOT NULL DEFAULT 0,
    cancelled INTEGER NOT NULL DEFAULT 0,
    last_seq INTEGER NOT NULL DEFAULT 0,
    bytes INTEGER NOT NULL DEFAULT 0,
    created_at INTEGER NOT NULL,
    started_at INTEGER,
    finished_at INTEGER,
    idempotency_key TEXT,
    request_hash TEXT
  ) STRICT;
  CREATE UNIQUE INDEX jobs_by_key ON jobs (owner, idempotency_key) WHERE idempotency_key IS NOT NULL;
  CREATE INDEX jobs_by_time ON jobs (created_at, id);

  CREATE TABLE job_tasks (
    job_id TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    idx INTEGER NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('queued', 'running', 'succeeded', 'failed', 'cancelled')),
    input TEXT NOT NULL,
    -- The number of the newest attempt. Only that attempt may record an outcome.
    attempts INTEGER NOT NULL DEFAULT 0,
    -- Attempts that failed by themselves, that were cut short, and that could not begin.
    failures INTEGER NOT NULL DEFAULT 0,
    losses INTEGER NOT NULL DEFAULT 0,
    refusals INTEGER NOT NULL DEFAULT 0,
    -- It is not started before.
    due_at INTEGER NOT NULL DEFAULT 0,
    sandbox_id TEXT,
    started_at INTEGER,
    finished_at INTEGER,
    -- Its place among the ended tasks of its job.
    seq INTEGER,
    reason TEXT,
    message TEXT,
    PRIMARY KEY (job_id, idx)
  ) STRICT;
  CREATE INDEX job_tasks_by_state ON job_tasks (job_id, state, due_at, idx);
  CREATE UNIQUE INDEX job_tasks_by_seq ON job_tasks (job_id, seq) WHERE seq IS NOT NULL;

  CREATE TABLE job_results (
    job_id TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    idx INTEGER NOT NULL,
    result TEXT NOT NULL,
    PRIMARY KEY (job_id, idx)
  ) STRICT;

  -- Sandboxes that exist for a job. A row is written before the sandbox is created.
  CREATE TABLE job_sandboxes (
    sandbox_id TEXT PRIMARY KEY,
    job_id TEXT NOT NULL
  ) STRICT, WITHOUT ROWID;
`
