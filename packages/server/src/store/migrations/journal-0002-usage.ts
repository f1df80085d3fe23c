/** What each sandbox used in each hour. Rows outlive their sandbox. */
export const sql = `
  CREATE TABLE usage (
    hour INTEGER NOT NULL,
    sandbox_id TEXT NOT NULL,
    owner TEXT NOT NULL,
    name TEXT,
    running_ms REAL NOT NULL,
    cpu_ms REAL NOT NULL,
    memory_byte_ms REAL NOT NULL,
    stored_byte_ms REAL NOT NULL,
    -- What it would have had for itself, had it never slept.
    reserved_cpu_ms REAL NOT NULL,
    reserved_memory_byte_ms REAL NOT NULL,
    wakes INTEGER NOT NULL,
    forks INTEGER NOT NULL,
    PRIMARY KEY (hour, sandbox_id)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX usage_of_owner ON usage (owner, hour);

  CREATE TABLE usage_clock (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    -- Up to here everything is counted.
    counted_until INTEGER NOT NULL
  ) STRICT;
`
