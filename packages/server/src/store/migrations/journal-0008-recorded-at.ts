/** When a server last wrote its time. Time that sandboxes exist is counted less often than that. */
export const sql = `
  ALTER TABLE usage_clock ADD COLUMN recorded_at INTEGER;
`
