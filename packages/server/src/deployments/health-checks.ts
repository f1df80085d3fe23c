import type { ServiceId } from '@dormouse/contracts'
import type { Log } from '../log.ts'
import type { LiveService } from './live-service.ts'

const DEFAULT_INTERVAL_MS = 10_000

interface Checked {
  readonly intervalMs: number
  readonly timer: NodeJS.Timeout
}

/** Checks services as often as their settings say. A service that sleeps has no timer. */
export class HealthChecks implements Disposable {
  readonly #log: Log
  readonly #checked = new Map<ServiceId, Checked>()

  constructor(log: Log) {
    this.#log = log
  }

  [Symbol.dispose](): void {
    for (const id of [...this.#checked.keys()]) this.end(id)
  }

  /** Call when the settings or the replicas may have changed. */
  follow(service: LiveService, isAwake = service.replicas.some((replica) => replica.isAwake)): void {
    const { id, state, settings } = service.row
    const isChecked = state === 'active' && isAwake && settings.health !== undefined
    const intervalMs = isChecked ? (settings.health?.intervalMs ?? DEFAULT_INTERVAL_MS) : undefined
    if (this.#checked.get(id)?.intervalMs === intervalMs) return
    this.end(id)
    if (intervalMs === undefined) return
    const timer = setInterval(() => {
      this.#check(service)
      this.follow(service)
    }, intervalMs)
    this.#checked.set(id, { intervalMs, timer: timer.unref() })
  }

  end(id: ServiceId): void {
    clearInterval(this.#checked.get(id)?.timer)
    this.#checked.delete(id)
  }

  #check(service: LiveService): void {
    void service.check().catch((err: unknown) => {
      this.#log.warn({ service: service.row.id, err }, 'a service could not be checked')
    })
  }
}
