/** In a cluster the hosts work on jobs together, and every host applies the same log of commands to its own tables. */
export const sql = `
  -- The host that has added the job, by its lease; empty outside a cluster.
  ALTER TABLE jobs ADD COLUMN host TEXT NOT NULL DEFAULT '';
  ALTER TABLE jobs ADD COLUMN epoch INTEGER NOT NULL DEFAULT 0;
  -- The host that runs the newest attempt.
  ALTER TABLE job_tasks ADD COLUMN host TEXT NOT NULL DEFAULT '';
  ALTER TABLE job_tasks ADD COLUMN epoch INTEGER NOT NULL DEFAULT 0;
  CREATE INDEX job_tasks_running ON job_tasks (host, epoch) WHERE state = 'running';

  -- How much of which log these tables have.
  CREATE TABLE job_log (
    stream TEXT NOT NULL,
    seq INTEGER NOT NULL
  ) STRICT;
  -- Commands of which not all pieces have come.
  CREATE TABLE job_log_pieces (
    command TEXT NOT NULL,
    piece INTEGER NOT NULL,
    at INTEGER NOT NULL,
    content TEXT NOT NULL,
    PRIMARY KEY (command, piece)
  ) STRICT;
`
