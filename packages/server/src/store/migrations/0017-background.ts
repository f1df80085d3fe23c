/** Background processes keep a sandbox awake, for at most this long after its last use. */
export const sql = `
  ALTER TABLE sandboxes ADD COLUMN max_background_ms INTEGER NOT NULL DEFAULT 86400000;
`
