import { DormouseError, newJobId } from '@dormouse/contracts'
import type { JobAnswer, TaskAnswer } from '@dormouse/contracts/http'
import type { Services } from '../services.ts'

const NOW = '2030-01-01T00:00:00.000Z'

/** Jobs whose tasks all succeed at once. */
export function fakeJobs(): Services['jobs'] {
  const jobs = new Map<string, JobAnswer>()
  const get = (id: string) => {
    const job = jobs.get(id)
    if (job === undefined) throw new DormouseError('not_found', `There is no job ${id}.`)
    return job
  }
  const task = (index: number): TaskAnswer => ({ index, state: 'succeeded', attempts: 1 })
  return {
    create: async ({ inputs, name, sandboxPer, concurrency, priority, timeoutMs, retry, metadata }) => {
      const { length: total } = inputs
      const job: JobAnswer = {
        ...{ id: newJobId(), name, sandboxPer, concurrency, priority, timeoutMs, retry, metadata, total },
        ...{
          state: 'finished',
          createdAt: NOW,
          resultBytes: 0,
          lastSeq: total,
          origin: { template: 'python' },
        },
        tasks: { queued: 0, running: 0, succeeded: total, failed: 0, cancelled: 0 },
      }
      jobs.set(job.id, job)
      return { job, isNew: true }
    },
    get,
    list: () => ({ items: [...jobs.values()], nextCursor: undefined }),
    task: (id, index) => {
      get(id)
      return task(index)
    },
    tasks: (id) => ({ items: Array.from({ length: get(id).total }, (_, index) => task(index)) }),
    events: async function* (id) {
      const job = get(id)
      yield { seq: 1, type: 'task', task: task(0) }
      yield { seq: 2, type: 'end', job }
    },
    cancel: get,
    delete: (id) => void jobs.delete(get(id).id),
    requireUnused: () => {},
  }
}
