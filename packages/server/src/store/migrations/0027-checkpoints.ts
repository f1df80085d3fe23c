/** A running sandbox can be saved every so often. */
export const sql = `
  ALTER TABLE sandboxes ADD COLUMN checkpoint_every_ms INTEGER NOT NULL DEFAULT 0;
`
