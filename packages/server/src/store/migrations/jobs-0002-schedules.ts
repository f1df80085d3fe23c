export const sql = `
  CREATE TABLE schedules (
    id TEXT PRIMARY KEY,
    owner TEXT NOT NULL,
    name TEXT NOT NULL,
    cron TEXT NOT NULL,
    timezone TEXT NOT NULL,
    missed TEXT NOT NULL CHECK (missed IN ('skip', 'once')),
    enabled INTEGER NOT NULL,
    action TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    -- The next time that has not fired. Null: there is none, or the schedule is off.
    next_at INTEGER,
    -- Times up to this one have fired or were skipped.
    settled_at INTEGER NOT NULL,
    UNIQUE (owner, name)
  ) STRICT;
  CREATE INDEX schedules_by_time ON schedules (next_at) WHERE next_at IS NOT NULL;

  -- One row for each time that fired. The key is what makes it one.
  CREATE TABLE schedule_firings (
    schedule_id TEXT NOT NULL REFERENCES schedules (id) ON DELETE CASCADE,
    at INTEGER NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('pending', 'sent', 'done', 'failed')),
    outcome TEXT,
    finished_at INTEGER,
    PRIMARY KEY (schedule_id, at)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX schedule_firings_open ON schedule_firings (state) WHERE state IN ('pending', 'sent');
`
