/** A sleeping sandbox can wake for the earliest timer of its processes. */
export const sql = `
  ALTER TABLE sandboxes ADD COLUMN wake_on_timer INTEGER NOT NULL DEFAULT 0;
  ALTER TABLE sandboxes ADD COLUMN wakes_at INTEGER;
`
