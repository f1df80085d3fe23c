import { setTimeout as sleep } from 'node:timers/promises'
import type { VolumeId } from '@dormouse/contracts'
import type { Engine } from '@dormouse/engine'
import type { LifecycleListener, Log } from '../lifecycle/parts.ts'
import type { SandboxRow } from '../store/sandbox-rows.ts'
import type { VolumeRows } from './volume-rows.ts'

export interface VolumeWatchOptions {
  readonly rows: VolumeRows
  readonly engine: Pick<Engine, 'measureVolume'>
  /** Those that a sandbox can write to at this moment. */
  readonly inUse: () => Iterable<VolumeId>
  readonly log: Log
}

const ROUND_MS = 1_000
/** After each look there is a rest so many times as long: however much there is to look at, it takes a twentieth of one CPU at most. */
const REST_FACTOR = 20
/** Far longer than a caller would wait: nobody gets out of a quota by making many small files. */
const LOOK_TIMEOUT_MS = 60_000

/**
 * Keeps what volumes take on disk up to date in their rows, for quotas: one volume after the other, those that somebody may have written to
 * since the last look.
 */
export class VolumeWatch implements Disposable {
  readonly #options: VolumeWatchOptions
  readonly #unseen: Set<VolumeId>
  readonly #closing = new AbortController()

  constructor(options: VolumeWatchOptions) {
    this.#options = options
    // Also those that were written to under an earlier server, a moment before its end.
    this.#unseen = new Set(options.rows.all().map(({ id }) => id))
    void this.#watch()
  }

  [Symbol.dispose](): void {
    this.#closing.abort()
  }

  /** Whoever wakes, writes and sleeps between two rounds is noticed here. */
  get listener(): LifecycleListener {
    const mark = ({ volumes }: Pick<SandboxRow, 'volumes'>) => {
      for (const { volumeId, readOnly } of volumes) if (!readOnly) this.#unseen.add(volumeId)
    }
    return { recorded: mark, deleted: mark }
  }

  async #watch(): Promise<void> {
    const { signal } = this.#closing
    const rest = (ms: number) => sleep(ms, undefined, { ref: false, signal }).catch(() => {})
    while (!signal.aborted) {
      for (const id of this.#options.inUse()) this.#unseen.add(id)
      for (const id of this.#unseen) {
        const began = performance.now()
        await this.#look(id)
        await rest((performance.now() - began) * REST_FACTOR)
        if (signal.aborted) return
      }
      await rest(ROUND_MS)
    }
  }

  async #look(id: VolumeId): Promise<void> {
    const { rows, engine, log } = this.#options
    const isClosed = () => this.#closing.signal.aborted
    // Before it is looked at: what is written meanwhile is found by the next look.
    this.#unseen.delete(id)
    try {
      const bytes = await engine.measureVolume(id, { timeoutMs: LOOK_TIMEOUT_MS })
      if (isClosed()) return
      if (bytes === undefined) log.warn({ volume: id }, 'a volume takes too long to measure')
      else rows.setBytes(id, bytes)
    } catch (error) {
      // The database may be closed, or the volume deleted meanwhile.
      if (isClosed() || rows.all().every((row) => row.id !== id)) return
      log.warn({ volume: id, err: error }, 'a volume was not measured')
    }
  }
}
