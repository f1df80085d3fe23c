/** Public keys by the name that their owner gave them. One may be with several owners. */
export const sql = `
  CREATE TABLE ssh_keys (
    id TEXT PRIMARY KEY,
    -- The API key: a connection reaches what it reaches.
    owner TEXT NOT NULL,
    name TEXT NOT NULL,
    type TEXT NOT NULL,
    -- As it goes over the wire.
    blob BLOB NOT NULL,
    created_at INTEGER NOT NULL
  ) STRICT;
  CREATE UNIQUE INDEX ssh_key_names ON ssh_keys (owner, name);
  CREATE UNIQUE INDEX ssh_key_blobs ON ssh_keys (owner, blob);
`
