/** `isolation` of a job is called `sandboxPer`: the word is what a sandbox has between it and its host. */
export const sql = `
  UPDATE jobs SET request = json_remove(
    json_set(request, '$.sandboxPer', json_extract(request, '$.isolation')), '$.isolation')
  WHERE json_type(request, '$.isolation') IS NOT NULL;
  UPDATE schedules SET action = json_remove(
    json_set(action, '$.job.sandboxPer', json_extract(action, '$.job.isolation')), '$.job.isolation')
  WHERE json_type(action, '$.job.isolation') IS NOT NULL;
`
