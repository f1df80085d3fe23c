export const sql = `
  -- What a sandbox had written when that was last looked at.
  ALTER TABLE sandboxes ADD COLUMN disk_bytes INTEGER;
`
