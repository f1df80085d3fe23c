export const sql = `
  -- The burrow that a sandbox lives in: of several that are found after a crash, this one counts.
  ALTER TABLE sandboxes ADD COLUMN burrow TEXT;
  -- Snapshots whose files may still be there although nobody is to have them any more. One that is on disk and neither here nor in
  -- snapshots was finished by a server that did not come to write it down.
  CREATE TABLE doomed_snapshots (id TEXT PRIMARY KEY) STRICT;
`
