export const sql = `
  -- What a run needs to be started, as JSON, until it is handed to its sandbox. NULL: it may have been handed over.
  ALTER TABLE runs ADD COLUMN request TEXT;
`
