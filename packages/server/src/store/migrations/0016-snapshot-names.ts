export const sql = `
  -- Which sandbox each sandbox was forked from. Outlives sandboxes, because their snapshots do.
  CREATE TABLE lineage (sandbox_id TEXT PRIMARY KEY, forked_from TEXT NOT NULL) STRICT, WITHOUT ROWID;
  CREATE INDEX lineage_of_parent ON lineage (forked_from);
  INSERT INTO lineage (sandbox_id, forked_from)
    SELECT id, forked_from FROM sandboxes WHERE forked_from IS NOT NULL;

  -- The name of a snapshot is unique in its sandbox. Of several, the newest keeps it; the others get their id as well.
  UPDATE snapshots SET name = NULL WHERE is_kept = 0;
  UPDATE snapshots SET name = 'files-before-loss' WHERE name = 'files before the loss';
  UPDATE snapshots SET name = substr(name, 1, 43) || '.' || id
    WHERE name IS NOT NULL AND EXISTS (
      SELECT 1 FROM snapshots AS newer
      WHERE newer.sandbox_id = snapshots.sandbox_id AND newer.name = snapshots.name
      AND (newer.created_at, newer.id) > (snapshots.created_at, snapshots.id));
  CREATE UNIQUE INDEX snapshot_names ON snapshots (sandbox_id, name) WHERE name IS NOT NULL;
`
