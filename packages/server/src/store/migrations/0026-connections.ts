/** Connections to the outside outlive a sleep, for an hour by default. */
export const sql = `
  ALTER TABLE sandboxes ADD COLUMN connections TEXT NOT NULL DEFAULT '{"keepAsleepMs":3600000,"wakeOnData":false}';
`
