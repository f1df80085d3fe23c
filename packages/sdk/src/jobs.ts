import { invalidArgument, pathPart } from './check.ts'
import type {
  CreateJobBody,
  JobAnswer,
  JobEventAnswer,
  JobPageAnswer,
  TaskAnswer,
  TaskPageAnswer,
} from './contract/index.ts'
import { follow } from './http/follow.ts'
import type { Http } from './http/http.ts'
import { Pages } from './http/pages.ts'
import type { Abortable, CallOptions } from './options.ts'
import { Result } from './runs/result.ts'
import { type RunResult, readRunResult } from './runs/run-result.ts'

/** A job, as of the last answer about it. */
export type Job = JobAnswer

/** One input of a job. `result` is there once it has ended, if it was asked for. */
export type Task = Omit<TaskAnswer, 'result'> & { readonly result?: RunResult | undefined }

/** A task has ended, or the job has. */
export type JobEvent =
  | { readonly seq: number; readonly type: 'task'; readonly task: Task }
  | { readonly seq: number; readonly type: 'end'; readonly job: Job }

export type CreateJob = Omit<CreateJobBody, 'code'> & {
  /**
   * Code that finds its input in the variable `item`, or a function of the input. A function runs inside a sandbox
   * with Node.js: it must not use anything from around it.
   */
  // biome-ignore lint/suspicious/noExplicitAny: the inputs are any JSON
  readonly code?: string | ((input: any) => unknown)
}

export interface FollowJob extends Abortable {
  /** Only events with a higher `seq`. */
  readonly after?: number | undefined
  /** Whether tasks have their `result`. */
  readonly results?: boolean | undefined
}

export interface ListTasks extends CallOptions {
  readonly state?: Task['state'] | undefined
  /** Whether tasks have their `result`. Default: true. */
  readonly results?: boolean | undefined
}

const TASKS_PAGE = 200
/** What the source of functions of the engine and of bound functions looks like. */
const NO_SOURCE = /\{\s*\[native code\]\s*\}$/

/** Code or a command over many inputs, on the server: this program may end meanwhile. */
export class Jobs {
  readonly #http: Http

  constructor(http: Http) {
    this.#http = http
  }

  /** Repeated after a lost connection only with an `idempotencyKey`. */
  async create(job: CreateJob, { signal, timeoutMs }: CallOptions = {}): Promise<Job> {
    const repeatable = job.idempotencyKey !== undefined
    return this.#http.json({
      method: 'POST',
      path: '/v1/jobs',
      json: toBody(job),
      repeatable,
      signal,
      timeoutMs,
    })
  }

  list({ signal, timeoutMs }: CallOptions = {}): Pages<Job> {
    return new Pages((query) =>
      this.#http.json<JobPageAnswer>({ path: '/v1/jobs', query, signal, timeoutMs }),
    )
  }

  async get(id: string, { signal, timeoutMs }: CallOptions = {}): Promise<Job> {
    return this.#http.json({ path: pathOf(id), signal, timeoutMs })
  }

  /** One event per ended task, in that order, then `end`. Reconnects as often as needed. */
  async *events(
    id: string,
    { after = 0, results = false, signal }: FollowJob = {},
  ): AsyncGenerator<JobEvent> {
    const events = follow<JobEventAnswer>({
      open: (seen) =>
        this.#http.open({
          path: `${pathOf(id)}/events`,
          query: { after: seen, results },
          headers: { accept: 'text/event-stream' },
          signal,
        }),
      after,
      isLast: ({ type }) => type === 'end',
      signal,
    })
    for await (const event of events)
      yield event.type === 'end' ? event : { ...event, task: readTask(event.task) }
  }

  /** Resolves when the job has ended. */
  async wait(id: string, { signal }: Abortable = {}): Promise<Job> {
    const { lastSeq } = await this.get(id, { signal })
    for await (const event of this.events(id, { after: lastSeq, signal }))
      if (event.type === 'end') return event.job
    return this.get(id, { signal })
  }

  /** All tasks, by index. */
  async *tasks(
    id: string,
    { state, results = true, signal, timeoutMs }: ListTasks = {},
  ): AsyncGenerator<Task, void, undefined> {
    for (let after: number | undefined = -1; after !== undefined; ) {
      const page: TaskPageAnswer = await this.#http.json({
        path: `${pathOf(id)}/tasks`,
        query: { state, results, after, limit: TASKS_PAGE },
        signal,
        timeoutMs,
      })
      for (const task of page.items) yield readTask(task)
      after = page.nextAfter
    }
  }

  /** One task with its result and its output. */
  async task(id: string, index: number, { signal, timeoutMs }: CallOptions = {}): Promise<Task> {
    return readTask(
      await this.#http.json({ path: `${pathOf(id)}/tasks/${pathPart('index', index)}`, signal, timeoutMs }),
    )
  }

  /** Tasks that wait never start, and the sandboxes of those that run are deleted. Results so far are kept. */
  async cancel(id: string, { signal, timeoutMs }: CallOptions = {}): Promise<Job> {
    const path = `${pathOf(id)}/cancel`
    return this.#http.json({ method: 'POST', path, json: {}, repeatable: true, signal, timeoutMs })
  }

  /** Deletes a job that has ended, with its results. */
  async delete(id: string, { signal, timeoutMs }: CallOptions = {}): Promise<void> {
    return this.#http.delete({ path: pathOf(id), signal, timeoutMs })
  }
}

function toBody({ code, ...job }: CreateJob): CreateJobBody {
  if (typeof code !== 'function') return { ...job, ...(code !== undefined && { code }) }
  const { variable = 'item', language = 'javascript' } = job
  const source = String(code)
  if (NO_SOURCE.test(source))
    throw invalidArgument(
      'code',
      'must be a function whose source is known',
      source,
      'Give the code as text.',
    )
  return { ...job, language, code: `await (${source})(${variable})` }
}

function readTask({ result, ...task }: TaskAnswer): Task {
  if (result === undefined) return task
  const { text, mainResult, ...answer } = result
  const run = readRunResult(answer)
  if (text !== undefined) run.text = text
  if (mainResult !== undefined) {
    const main = answer.results[mainResult]
    if (main !== undefined) run.results[mainResult] = new Result(main, true)
  }
  return { ...task, result: run }
}

function pathOf(id: string): string {
  return `/v1/jobs/${pathPart('id', id)}`
}
