/** Templates that were made through the API; those that set-up built are not in here. */
export const sql = `
  CREATE TABLE templates (
    name TEXT NOT NULL,
    owner TEXT NOT NULL,
    description TEXT,
    state TEXT NOT NULL,
    source TEXT NOT NULL,
    -- The one that it stands for; of those that were made from one.
    snapshot_id TEXT,
    created_at INTEGER NOT NULL,
    log_tail TEXT,
    error TEXT,
    PRIMARY KEY (owner, name)
  ) STRICT;
  CREATE INDEX template_snapshots ON templates (snapshot_id);
`
