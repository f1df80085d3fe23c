export const sql = `
  -- The sandbox that the head of this one was taken of. A wake refuses a head whose manifest names another.
  ALTER TABLE sandboxes ADD COLUMN head_of TEXT;
  UPDATE sandboxes
    SET head_of = coalesce((SELECT sandbox_id FROM snapshots WHERE snapshots.id = sandboxes.head), id)
    WHERE head IS NOT NULL;
`
