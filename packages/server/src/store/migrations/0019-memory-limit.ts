/** A sandbox may be paused at its memory limit; then the row has the limit at which it was. */
export const sql = `
  ALTER TABLE sandboxes ADD COLUMN at_memory_limit TEXT NOT NULL DEFAULT 'kill';
  ALTER TABLE sandboxes ADD COLUMN paused_at_bytes INTEGER;
`
