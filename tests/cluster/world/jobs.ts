import { expect } from 'vitest'
import type { ServerProcess } from '../../server/server-process.ts'
import type { Model } from './model.ts'

/** What faults do to an attempt is not what the model looks at. */
const RETRY = { retries: 12, backoffMs: 50 }
const UNFINISHED_MAX = 2
const END_MS = 120_000

interface KnownJob {
  readonly id: string
  readonly inputs: readonly number[]
  isFinished: boolean
}

/** Jobs that were acknowledged: each ends with the result of each input, once. */
export class KnownJobs {
  readonly all: KnownJob[] = []
  readonly #model: Model

  constructor(model: Model) {
    this.#model = model
  }

  async begin(host: ServerProcess, inputs: readonly number[]): Promise<void> {
    if (this.all.filter(({ isFinished }) => !isFinished).length >= UNFINISHED_MAX) return
    const json = { code: 'item * item', inputs, concurrency: 2, retry: RETRY }
    const made = await this.#model.ask(host, '/v1/jobs', { json })
    if (made === undefined) return
    this.all.push({ id: made.id, inputs, isFinished: false })
    this.#model.counts.jobs += 1
  }

  /** A job that has ended stays so on every host, with its results. */
  async look(host: ServerProcess, job: KnownJob): Promise<void> {
    const { id, inputs } = job
    const found = await this.#model.ask(host, `/v1/jobs/${id}/tasks?results=true`)
    // A host that is cut off may not know the job yet.
    if (found === undefined) return
    const said = `seed ${this.#model.seed}: tasks of ${id}: ${JSON.stringify(found.items)}`
    expect(found.items, said).toHaveLength(inputs.length)
    for (const { index, state, result } of found.items) {
      expect(state, said).not.toMatch('failed')
      if (state === 'succeeded') expect(result.text, said).toBe(String((inputs[index] ?? 0) ** 2))
    }
    if (found.items.every(({ state }: { state: string }) => state === 'succeeded')) job.isFinished = true
  }

  /** All ends, and every host tells the same, each task once. Pre: nothing disturbs the cluster. */
  async requireFinished(): Promise<void> {
    for (const { server } of this.#model.hosts)
      for (const job of this.all) {
        const ends = async () => {
          await this.look(server, job)
          return (await this.#model.ask(server, `/v1/jobs/${job.id}`))?.state
        }
        await expect.poll(ends, { timeout: END_MS, interval: 500 }).toBe('finished')
        const headers = { accept: 'application/x-ndjson' }
        const { key } = this.#model.cluster
        const events = await server.fetch(`/v1/jobs/${job.id}/events`, { key, headers })
        const lines = (await events.text()).split('\n').filter((line) => line !== '')
        const ended = lines.flatMap((line) => JSON.parse(line).task?.index ?? [])
        const indexes = job.inputs.map((_, index) => index)
        expect(ended.sort(), `seed ${this.#model.seed}: ${job.id}`).toEqual(indexes)
      }
  }
}
