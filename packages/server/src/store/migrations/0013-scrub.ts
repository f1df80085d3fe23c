export const sql = `
  -- Parts of what is stored that were read: when, and what was wrong. A pass that was cut off continues with those that it has not read.
  CREATE TABLE scrubbed_parts (
    key TEXT PRIMARY KEY,
    checked_at INTEGER NOT NULL,
    damage TEXT
  ) STRICT;
  -- One row.
  CREATE TABLE scrub (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    began_at INTEGER,
    finished_at INTEGER,
    read_bytes INTEGER NOT NULL
  ) STRICT;
  INSERT INTO scrub (id, read_bytes) VALUES (1, 0);
  -- Snapshots that are known to be damaged, with the part that is: nothing is restored from them.
  CREATE TABLE quarantined_snapshots (
    snapshot_id TEXT NOT NULL REFERENCES snapshots (id) ON DELETE CASCADE,
    part TEXT NOT NULL,
    reason TEXT NOT NULL,
    found_at INTEGER NOT NULL,
    PRIMARY KEY (snapshot_id, part)
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE quarantined_templates (
    name TEXT NOT NULL,
    part TEXT NOT NULL,
    reason TEXT NOT NULL,
    found_at INTEGER NOT NULL,
    PRIMARY KEY (name, part)
  ) STRICT, WITHOUT ROWID;
`
