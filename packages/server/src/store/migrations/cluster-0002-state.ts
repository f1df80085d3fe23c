export const sql = `
  -- The shared state that this host has joined. Another one means that the cluster was made anew.
  ALTER TABLE host ADD COLUMN state_id TEXT NOT NULL DEFAULT '';

  -- What each host has counted in each hour, by owner, for reports while that host is lost. All hosts have all rows.
  CREATE TABLE usage_hours (
    host TEXT NOT NULL,
    hour INTEGER NOT NULL,
    -- JSON: owner to amounts.
    amounts TEXT NOT NULL,
    PRIMARY KEY (host, hour)
  ) STRICT;

  -- Which host has a job or a service. All hosts have all rows.
  CREATE TABLE places (
    kind TEXT NOT NULL,
    id TEXT NOT NULL,
    owner TEXT NOT NULL,
    name TEXT,
    host TEXT NOT NULL,
    PRIMARY KEY (kind, id)
  ) STRICT;
`
