/** Templates are built in sandboxes, and are their snapshots. */
export const sql = `
  -- The template that it was built on.
  ALTER TABLE templates ADD COLUMN base TEXT;
  -- The sandbox that builds it. It is recorded before it exists, and removed with the build.
  ALTER TABLE templates ADD COLUMN sandbox_id TEXT;
  -- Its files alone, for hosts where the processes in snapshot_id cannot go on.
  ALTER TABLE templates ADD COLUMN files_snapshot_id TEXT;
  -- JSON: modules that its sandboxes start with, those of what it was built on included.
  ALTER TABLE templates ADD COLUMN preload TEXT;
  -- JSON: how many packages it was built from, and the digest of their list.
  ALTER TABLE templates ADD COLUMN materials TEXT;
  CREATE INDEX template_files ON templates (files_snapshot_id);
  CREATE TABLE template_materials (
    owner TEXT NOT NULL,
    name TEXT NOT NULL,
    -- JSON.
    items TEXT NOT NULL,
    PRIMARY KEY (owner, name),
    FOREIGN KEY (owner, name) REFERENCES templates (owner, name) ON DELETE CASCADE
  ) STRICT;
`
