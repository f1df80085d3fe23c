/** Which engine a sandbox lives in. */
export const sql = `
  ALTER TABLE sandboxes ADD COLUMN isolation TEXT NOT NULL DEFAULT 'process';
`
