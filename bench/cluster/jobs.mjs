import { setTimeout as sleep } from 'node:timers/promises'

const POLL_MS = 50

/** Tasks per second of a job on all hosts, from the first start to the last end by the cluster's own records. */
export async function measureJobs(client, { count, atOnce }) {
  const result = { count, atOnce }
  for (const sandboxPer of ['task', 'worker']) {
    const inputs = Array.from({ length: count }, (_, index) => index)
    const body = { code: 'item * item', inputs, concurrency: atOnce, template: 'python', sandboxPer }
    result[sandboxPer] = await untilDone(client, (await client.call('POST', '/v1/jobs', body)).id, count)
  }
  return result
}

async function untilDone(client, id, count) {
  for (;;) {
    const job = await client.call('GET', `/v1/jobs/${id}`)
    if (job.finishedAt === undefined) await sleep(POLL_MS)
    else if (job.tasks.succeeded !== count) throw new Error(`${count - job.tasks.succeeded} tasks failed`)
    else return count / ((Date.parse(job.finishedAt) - Date.parse(job.startedAt)) / 1000)
  }
}
