export const sql = `
  -- What a sandbox may reach, JSON. Those that are older than this get what the server is configured with.
  ALTER TABLE sandboxes ADD COLUMN network TEXT;

  -- What its policy refused, JSON, where the event is that.
  ALTER TABLE ledger ADD COLUMN denied TEXT;
`
