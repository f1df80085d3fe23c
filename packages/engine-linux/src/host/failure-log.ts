import type { EngineFailureKind, Log } from '@dormouse/engine'

/** Logs and counts failures of background work, which no caller hears of otherwise. */
export class FailureLog {
  readonly #log: Log | undefined
  readonly #counts = new Map<EngineFailureKind, number>()

  constructor(log?: Log) {
    this.#log = log
  }

  get counts(): ReadonlyMap<EngineFailureKind, number> {
    return this.#counts
  }

  /** `fields` name what it was about: sandbox, burrow or snapshot. */
  report(kind: EngineFailureKind, error: unknown, fields: object, message: string): void {
    this.#counts.set(kind, (this.#counts.get(kind) ?? 0) + 1)
    this.#log?.warn({ ...fields, kind, err: error }, message)
  }
}
