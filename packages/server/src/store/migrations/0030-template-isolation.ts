/** The default for sandboxes of a built template. */
export const sql = `
  ALTER TABLE templates ADD COLUMN isolation TEXT;
`
