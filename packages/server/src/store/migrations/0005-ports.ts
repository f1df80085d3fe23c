/** Who may reach the ports of sandboxes. A port without a row is private. */
export const sql = `
  CREATE TABLE ports (
    sandbox_id TEXT NOT NULL REFERENCES sandboxes (id) ON DELETE CASCADE,
    port INTEGER NOT NULL,
    -- public
    access TEXT NOT NULL,
    PRIMARY KEY (sandbox_id, port)
  ) STRICT, WITHOUT ROWID;

  -- Random bytes that the server signs with, by what for.
  CREATE TABLE secrets (
    name TEXT PRIMARY KEY,
    value BLOB NOT NULL
  ) STRICT;
`
