import type { SnapshotAnswer, SnapshotPageAnswer } from './contract/index.ts'
import type { Http } from './http/http.ts'
import { Pages } from './http/pages.ts'
import type { Abortable } from './options.ts'

export type Snapshot = SnapshotAnswer

/** Saved states: `sandbox.snapshot()` takes one, `sandbox.rollback()` returns to it. */
export class Snapshots {
  readonly #http: Http

  constructor(http: Http) {
    this.#http = http
  }

  /** Of all sandboxes, or of one. */
  list({ sandboxId, signal }: Abortable & { sandboxId?: string } = {}): Pages<Snapshot> {
    return new Pages((page) =>
      this.#http.json<SnapshotPageAnswer>({ path: '/v1/snapshots', query: { ...page, sandboxId }, signal }),
    )
  }

  get(id: string, { signal }: Abortable = {}): Promise<Snapshot> {
    return this.#http.json({ path: pathOf(id), signal })
  }

  /**
   * Reads the whole snapshot. Wakes nothing, and may take long. Throws `snapshot_unusable` with the reason if it is
   * damaged or cannot be restored on this server.
   */
  async verify(id: string, { signal }: Abortable = {}): Promise<void> {
    const path = `${pathOf(id)}/verify`
    await this.#http.json({ method: 'POST', path, repeatable: true, timeoutMs: 0, signal })
  }

  /** Refused for the snapshot that a sandbox would wake from. */
  delete(id: string, { signal }: Abortable = {}): Promise<void> {
    return this.#http.delete({ path: pathOf(id), signal })
  }
}

function pathOf(id: string): string {
  return `/v1/snapshots/${encodeURIComponent(id)}`
}
