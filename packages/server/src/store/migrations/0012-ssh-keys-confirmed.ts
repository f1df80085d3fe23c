export const sql = `
  -- When the holder of the private key said yes to this API key; until then a row lets nobody in. Rows of before were never confirmed.
  ALTER TABLE ssh_keys ADD COLUMN confirmed_at INTEGER;
  -- What the holder connects with to say so.
  ALTER TABLE ssh_keys ADD COLUMN code TEXT NOT NULL DEFAULT '';
  UPDATE ssh_keys SET code = lower(hex(randomblob(10)));
`
