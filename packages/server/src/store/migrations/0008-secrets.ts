/** What is put into requests of sandboxes outside of them. `secrets` are the server's own, to sign with. */
export const sql = `
  CREATE TABLE edge_secrets (
    id TEXT PRIMARY KEY,
    owner TEXT NOT NULL,
    name TEXT NOT NULL,
    placeholder TEXT NOT NULL,
    -- Encrypted with a key that is in a file of its own.
    sealed_value BLOB NOT NULL,
    domains TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
  ) STRICT;
  CREATE UNIQUE INDEX edge_secret_names ON edge_secrets (owner, name);

  -- Names of its owner's secrets, a JSON array.
  ALTER TABLE sandboxes ADD COLUMN secrets TEXT NOT NULL DEFAULT '[]';
`
