/** Bytes that each run takes in the journal: 256 for its row, and its events. */
export const sql = `
  ALTER TABLE runs ADD COLUMN bytes INTEGER NOT NULL DEFAULT 256;
  UPDATE runs SET bytes = 256 + coalesce(
    (SELECT sum(octet_length(event) + 32) FROM events WHERE events.run = runs.id), 0);
`
