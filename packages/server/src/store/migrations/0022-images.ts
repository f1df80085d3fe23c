/** Templates from images and Dockerfiles. */
export const sql = `
  -- JSON: environment, user, working directory and command of its programs, as an image has them.
  ALTER TABLE templates ADD COLUMN image TEXT;
  -- JSON: what a sandbox needs to start in the state before the step that failed.
  ALTER TABLE templates ADD COLUMN debug TEXT;
  -- The files in that state.
  ALTER TABLE templates ADD COLUMN debug_snapshot_id TEXT;
  -- Steps of builds whose files can be used again. The key says all that the files depend on.
  CREATE TABLE build_steps (
    owner TEXT NOT NULL,
    key TEXT NOT NULL,
    snapshot_id TEXT NOT NULL,
    used_at INTEGER NOT NULL,
    PRIMARY KEY (owner, key)
  ) STRICT;
  CREATE INDEX build_step_snapshots ON build_steps (snapshot_id);
`
