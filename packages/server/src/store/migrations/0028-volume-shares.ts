export const sql = `
  -- Keys that may use a volume of another key: read or write.
  CREATE TABLE volume_shares (
    volume_id TEXT NOT NULL REFERENCES volumes (id) ON DELETE CASCADE,
    key_id TEXT NOT NULL,
    access TEXT NOT NULL,
    PRIMARY KEY (volume_id, key_id)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX volume_shares_of_key ON volume_shares (key_id);

  -- Nothing can write to it: a clone that was made as a snapshot.
  ALTER TABLE volumes ADD COLUMN read_only INTEGER NOT NULL DEFAULT 0;
  -- The name of the volume that it was cloned from.
  ALTER TABLE volumes ADD COLUMN cloned_from TEXT;
`
