import { Limiter } from '@dormouse/async'
import { DormouseError, type SnapshotId } from '@dormouse/contracts'
import type { OpenFile, SnapshotFiles } from '@dormouse/engine'
import { endingWith, untilRead } from '@dormouse/engine-linux/for-engines'
import type { MicrovmBurrow } from '../burrow/microvm-burrow.ts'
import type { MicrovmHost } from '../microvm-host.ts'
import { makeBurrow } from './make-burrow.ts'
import type { MicrovmSnapshotStore } from './snapshot-store.ts'

/** Each takes the memory of a machine. */
const MACHINES_MAX = 2
/** A caller who looks at one file often looks at the next. */
const KEEP_MS = 10_000

interface Reader {
  readonly burrow: Promise<MicrovmBurrow>
  readonly end: () => void
  users: number
  timer: NodeJS.Timeout | undefined
}

/**
 * Reads files of snapshots. They are on disks that a hostile guest wrote, so a machine of the snapshot reads them: it has
 * neither network nor volumes, its programs stand still, and it is removed afterwards.
 */
export class FileReaders implements AsyncDisposable {
  readonly #host: MicrovmHost
  readonly #store: MicrovmSnapshotStore
  readonly #readers = new Map<SnapshotId, Reader>()
  readonly #ending = new Set<Promise<void>>()
  /** A place is taken until the machine is gone. */
  readonly #limiter = new Limiter({
    concurrency: MACHINES_MAX,
    maxQueued: 64,
    maxWaitMs: 60_000,
    refuse: () => new DormouseError('overloaded', 'Files of too many sleeping sandboxes are read.'),
  })

  constructor(host: MicrovmHost, store: MicrovmSnapshotStore) {
    this.#host = host
    this.#store = store
  }

  of(id: SnapshotId): SnapshotFiles {
    const use = <Value>(work: (burrow: MicrovmBurrow) => Promise<Value>) => this.#use(id, work)
    return {
      stat: (path, options) => use(({ guest }) => guest.files.stat(path, options)),
      list: (path, options) => this.#list(id, path, options),
      open: (path, options) =>
        new Promise<OpenFile>((resolve, reject) => {
          use(async ({ guest }) => {
            const { stat, data } = await guest.files.open(path, options)
            // The machine stays until the last byte is read.
            await untilRead((onEnd) => resolve({ stat, data: endingWith(data, onEnd) }), options?.signal)
          }).catch(reject)
        }),
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const { end } of this.#readers.values()) end()
    await Promise.all(this.#ending)
  }

  async *#list(id: SnapshotId, ...args: Parameters<SnapshotFiles['list']>) {
    const reader = this.#hold(id)
    try {
      yield* (await reader.burrow).guest.files.list(...args)
    } finally {
      this.#release(id, reader)
    }
  }

  async #use<Value>(id: SnapshotId, work: (burrow: MicrovmBurrow) => Promise<Value>): Promise<Value> {
    const reader = this.#hold(id)
    try {
      return await work(await reader.burrow)
    } finally {
      this.#release(id, reader)
    }
  }

  #hold(id: SnapshotId): Reader {
    const reader = this.#readers.get(id) ?? this.#start(id)
    clearTimeout(reader.timer)
    reader.users += 1
    return reader
  }

  #start(id: SnapshotId): Reader {
    let end = () => {}
    const ended = new Promise<void>((resolve) => {
      end = resolve
    })
    const burrow = new Promise<MicrovmBurrow>((resolve, reject) => {
      const ending = this.#limiter
        .run(async () => {
          await using made = await this.#make(id)
          resolve(made)
          await Promise.race([ended, made.ended])
          this.#forget(id, reader)
        })
        .catch((error: unknown) => {
          this.#forget(id, reader)
          reject(error)
        })
        .finally(() => this.#ending.delete(ending))
      this.#ending.add(ending)
    })
    const reader: Reader = { burrow, end, users: 0, timer: undefined }
    this.#readers.set(id, reader)
    return reader
  }

  async #make(id: SnapshotId): Promise<MicrovmBurrow> {
    const manifest = await this.#store.getUsable(id)
    const { base, kind, limits, sandboxId } = manifest
    return makeBurrow(this.#host, {
      ...{ base, limits, parent: id, source: this.#host.layout.snapshot(id), isBoot: kind === 'files' },
      introduction: { sandboxId, reason: 'resume', reseed: false },
      ...{ volumes: [], hadVolumes: manifest.volumes, isForFiles: true },
    })
  }

  #release(id: SnapshotId, reader: Reader): void {
    reader.users -= 1
    if (reader.users > 0) return
    reader.timer = setTimeout(() => {
      this.#forget(id, reader)
      reader.end()
    }, KEEP_MS)
    reader.timer.unref()
  }

  /** The next caller gets another machine. */
  #forget(id: SnapshotId, reader: Reader): void {
    if (this.#readers.get(id) === reader) this.#readers.delete(id)
  }
}
