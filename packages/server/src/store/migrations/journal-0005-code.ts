/** The beginning of the code of each run. NULL: an older version started it. */
export const sql = `
  ALTER TABLE runs ADD COLUMN code TEXT;
  ALTER TABLE runs ADD COLUMN is_code_cut INTEGER NOT NULL DEFAULT 0;
`
