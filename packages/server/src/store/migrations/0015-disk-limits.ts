import { DEFAULT_FILES } from '@dormouse/contracts'

/** Files beside bytes, sizes of volumes, and ceilings of keys for one sandbox. */
export const sql = `
  -- How many files it had made when that was last looked at.
  ALTER TABLE sandboxes ADD COLUMN disk_files INTEGER;
  UPDATE sandboxes SET limits = json_set(limits, '$.files', ${DEFAULT_FILES});

  -- What it may hold; null: what the configuration says.
  ALTER TABLE volumes ADD COLUMN size_bytes INTEGER;
  -- As last measured.
  ALTER TABLE volumes ADD COLUMN files INTEGER;

  ALTER TABLE keys ADD COLUMN sandbox_memory_bytes INTEGER;
  ALTER TABLE keys ADD COLUMN sandbox_cpus REAL;
  ALTER TABLE keys ADD COLUMN sandbox_pids INTEGER;
  ALTER TABLE keys ADD COLUMN sandbox_disk_bytes INTEGER;
  ALTER TABLE keys ADD COLUMN sandbox_files INTEGER;
`
