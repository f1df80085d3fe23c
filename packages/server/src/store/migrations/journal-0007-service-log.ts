export const sql = `
  -- What the programs of services print.
  CREATE TABLE service_log (
    service_id TEXT NOT NULL,
    seq INTEGER NOT NULL,
    at INTEGER NOT NULL,
    sandbox_id TEXT NOT NULL,
    version INTEGER NOT NULL,
    stream TEXT NOT NULL,
    text TEXT NOT NULL,
    -- The process, and the seq of its event that the line came with.
    process_id TEXT NOT NULL,
    event_seq INTEGER NOT NULL,
    PRIMARY KEY (service_id, seq)
  ) STRICT, WITHOUT ROWID;
`
