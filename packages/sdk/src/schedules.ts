import { pathPart } from './check.ts'
import type {
  CreateScheduleBody,
  FiringAnswer,
  FiringListAnswer,
  ScheduleAnswer,
  SchedulePageAnswer,
  UpdateScheduleBody,
} from './contract/index.ts'
import type { Http } from './http/http.ts'
import { Pages } from './http/pages.ts'
import type { CallOptions } from './options.ts'

export type Schedule = ScheduleAnswer
export type CreateSchedule = CreateScheduleBody
export type UpdateSchedule = UpdateScheduleBody
/** One time at which a schedule fired, and what came of it. */
export type Firing = FiringAnswer

/** Runs, jobs and requests at the times of a cron expression. */
export class Schedules {
  readonly #http: Http

  constructor(http: Http) {
    this.#http = http
  }

  create(schedule: CreateSchedule, { signal, timeoutMs }: CallOptions = {}): Promise<Schedule> {
    return this.#http.json({ method: 'POST', path: '/v1/schedules', json: schedule, signal, timeoutMs })
  }

  list({ signal, timeoutMs }: CallOptions = {}): Pages<Schedule> {
    return new Pages((query) =>
      this.#http.json<SchedulePageAnswer>({ path: '/v1/schedules', query, signal, timeoutMs }),
    )
  }

  async get(name: string, { signal, timeoutMs }: CallOptions = {}): Promise<Schedule> {
    return this.#http.json({ path: pathOf(name), signal, timeoutMs })
  }

  /** Times that pass while it is off are not missed. */
  async update(
    name: string,
    change: UpdateSchedule,
    { signal, timeoutMs }: CallOptions = {},
  ): Promise<Schedule> {
    return this.#http.json({ method: 'PATCH', path: pathOf(name), json: change, signal, timeoutMs })
  }

  /** What it has started continues. */
  async delete(name: string, { signal, timeoutMs }: CallOptions = {}): Promise<void> {
    return this.#http.delete({ path: pathOf(name), signal, timeoutMs })
  }

  /** Fires it now, beside its times. */
  async fire(name: string, { signal, timeoutMs }: CallOptions = {}): Promise<Firing> {
    return this.#http.json({ method: 'POST', path: `${pathOf(name)}/fire`, json: {}, signal, timeoutMs })
  }

  /** The latest 100, newest first. */
  async firings(name: string, { signal, timeoutMs }: CallOptions = {}): Promise<readonly Firing[]> {
    const path = `${pathOf(name)}/firings`
    return (await this.#http.json<FiringListAnswer>({ path, signal, timeoutMs })).items
  }
}

function pathOf(name: string): string {
  return `/v1/schedules/${pathPart('name', name)}`
}
