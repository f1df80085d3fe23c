/**
 * Volumes by the name that their owner gave them; the engine knows them by id. A row comes before the directory and
 * goes after it.
 */
export const sql = `
  CREATE TABLE volumes (
    id TEXT PRIMARY KEY,
    owner TEXT NOT NULL,
    name TEXT NOT NULL,
    -- creating, ready, deleting
    state TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    -- As last measured.
    bytes INTEGER
  ) STRICT;
  CREATE UNIQUE INDEX volume_names ON volumes (owner, name);

  -- Ids of the volumes that a sandbox restored from it mounts, a JSON array.
  ALTER TABLE snapshots ADD COLUMN volumes TEXT NOT NULL DEFAULT '[]';

  -- Sandboxes could ask for volumes before there were any. Nothing was mounted.
  UPDATE sandboxes SET volumes = '[]';
`
