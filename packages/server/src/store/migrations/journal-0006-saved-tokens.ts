/** Tokens that kept state saved, by hour. Runs from before this version are not counted. */
export const sql = `
  ALTER TABLE usage ADD COLUMN saved_tokens INTEGER NOT NULL DEFAULT 0;
  -- The last run that is counted.
  ALTER TABLE usage_clock ADD COLUMN counted_run INTEGER NOT NULL DEFAULT 0;
  UPDATE usage_clock SET counted_run = (SELECT coalesce(max(id), 0) FROM runs);
  CREATE INDEX runs_of_context ON runs (sandbox_id, context, id);
`
