export const sql = `
  -- Entries in NATS say which host has a service.
  DROP TABLE places;
`
