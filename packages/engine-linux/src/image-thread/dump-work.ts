import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { VolumeMount } from '@dormouse/engine'
import { listWritten } from '../image/carry-open-files.ts'
import type { Countdown } from '../image/countdown.ts'
import { requireSmallDump } from '../image/dump-limits.ts'
import { readImage } from '../image/image-file.ts'
import { restoreQueuesSilently } from '../image/inside-connections.ts'
import { type MapMemory, type MappedImage, mapMemory } from '../image/map-memory.ts'
import { OpenFiles } from '../image/open-files.ts'
import { type OutsideConnections, parkOutsideConnections } from '../image/outside-connections.ts'
import type { PageMover } from '../image/page-mover.ts'
import { mendPipes } from '../image/pipes.ts'
import { refuseLoss } from '../image/refuse-loss.ts'
import { relaxShownLimits } from '../image/relax-shown-limits.ts'
import { dropBaseFilters } from '../image/seccomp-filters.ts'
import { mendSleepingThreads, type SleepingThread } from '../image/sleeping-threads.ts'
import { taskTimersOf } from '../image/task-timers.ts'
import { mendTimers, timersOf } from '../image/timers.ts'
import { restorableQueueBytes } from '../network/restorable-queue.ts'
import { detachFromVolumes } from '../volume/detach-from-volumes.ts'
import type { VolumeFile } from '../volume/volume-files.ts'

export interface MendDump {
  readonly sleeps: readonly SleepingThread[]
  /** The connections to the outside that continue after a restore, by key. */
  readonly keptKeys: readonly string[]
}

/**
 * The work on one dump, inside an image thread. Reads files.img once, changes it in memory, and writes it to the images
 * of the snapshot.
 */
export class DumpWork {
  readonly #rawDir: string
  readonly #files: OpenFiles

  private constructor(rawDir: string, files: OpenFiles) {
    this.#rawDir = rawDir
    this.#files = files
  }

  /** Throws `snapshot_refused` when the dump is too large. */
  static async read(rawDir: string): Promise<DumpWork> {
    await requireSmallDump(rawDir)
    return new DumpWork(rawDir, new OpenFiles(await readImage(join(rawDir, 'files.img'))))
  }

  detachFromVolumes(volumes: {
    readonly mounts: readonly VolumeMount[]
    readonly volumesDir: string
  }): Promise<VolumeFile[]> {
    return detachFromVolumes({ rawDir: this.#rawDir, files: this.#files, ...volumes })
  }

  refuseLoss({ pids }: { readonly pids: readonly number[] }): Promise<void> {
    return refuseLoss(this.#rawDir, this.#files.image, pids)
  }

  /** Fixes what CRIU saves in a form that it would not restore correctly. */
  async mend({ sleeps, keptKeys }: MendDump): Promise<OutsideConnections & { hasWritten: boolean }> {
    mendTimers(this.#files.image)
    await mendSleepingThreads(this.#rawDir, sleeps)
    relaxShownLimits(this.#files)
    await mendPipes(this.#rawDir)
    await dropBaseFilters(this.#rawDir)
    await restoreQueuesSilently(this.#rawDir, this.#files.image)
    const parked = await parkOutsideConnections(this.#rawDir, this.#files.image, {
      keys: new Set(keptKeys),
      queueMaxBytes: await restorableQueueBytes(),
    })
    return { ...parked, hasWritten: await listWritten(this.#files, this.#rawDir) }
  }

  /** All timers that are set. */
  async timers(): Promise<Countdown[]> {
    const found = timersOf(this.#files.image)
    for (const name of await readdir(this.#rawDir)) {
      if (!/^core-\d+\.img$/.test(name)) continue
      const { records } = await readImage(join(this.#rawDir, name))
      for (const { message } of records) found.push(...taskTimersOf(message))
    }
    return found
  }

  map(into: Omit<MapMemory, 'rawDir' | 'worker' | 'files'>, worker: PageMover): Promise<MappedImage> {
    return mapMemory({ ...into, rawDir: this.#rawDir, files: this.#files, worker })
  }
}
