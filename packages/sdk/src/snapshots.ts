import { pathPart } from './check.ts'
import type { SnapshotAnswer, SnapshotPageAnswer } from './contract/index.ts'
import type { Http } from './http/http.ts'
import { Pages } from './http/pages.ts'
import type { CallOptions } from './options.ts'

export type Snapshot = SnapshotAnswer
/** Its id, its name where the sandbox is known, `SANDBOX/NAME`, or the snapshot itself. */
export type SnapshotRef = string | Pick<Snapshot, 'id'>

/**
 * Saved states: `sandbox.snapshot()` takes one, `sandbox.rollback()` returns to it. Each is named by its id, or as
 * `SANDBOX/NAME` with the id or name of its sandbox.
 */
export class Snapshots {
  readonly #http: Http

  constructor(http: Http) {
    this.#http = http
  }

  /** Of all sandboxes, or of one. */
  list({ sandboxId, signal, timeoutMs }: CallOptions & { sandboxId?: string } = {}): Pages<Snapshot> {
    return new Pages((page) =>
      this.#http.json<SnapshotPageAnswer>({
        path: '/v1/snapshots',
        query: { ...page, sandboxId },
        signal,
        timeoutMs,
      }),
    )
  }

  async get(id: string, { signal, timeoutMs }: CallOptions = {}): Promise<Snapshot> {
    return this.#http.json({ path: pathOf(id), signal, timeoutMs })
  }

  /**
   * Reads the whole snapshot. Wakes nothing, and may take long. Throws `snapshot_unusable` with the reason if it is
   * damaged or cannot be restored on this server.
   */
  async verify(id: string, { signal, timeoutMs }: CallOptions = {}): Promise<void> {
    const path = `${pathOf(id)}/verify`
    await this.#http.json({ method: 'POST', path, repeatable: true, answerMs: 0, signal, timeoutMs })
  }

  /** Refused for the snapshot that a sandbox would wake from. */
  async delete(id: string, { signal, timeoutMs }: CallOptions = {}): Promise<void> {
    return this.#http.delete({ path: pathOf(id), signal, timeoutMs })
  }
}

export function snapshotRef(snapshot: SnapshotRef): string {
  return typeof snapshot === 'string' ? snapshot : snapshot.id
}

function pathOf(id: string): string {
  return `/v1/snapshots/${pathPart('id', id)}`
}
