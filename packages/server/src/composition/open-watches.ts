import type { VolumeId } from '@dormouse/contracts'
import type { ServerConfig } from '../config/config.ts'
import type { Closing } from '../host/closing.ts'
import { DiskWatch } from '../sandbox/disk-watch.ts'
import { FrozenMemory } from '../sandbox/frozen-memory.ts'
import { IdleWatch } from '../sandbox/idle-watch.ts'
import type { Sandboxes } from '../sandbox/sandboxes.ts'
import { openScrub } from '../scrub/open-scrub.ts'
import type { Scrub } from '../scrub/scrub.ts'
import { UnmeasuredVolumes } from '../volumes/unmeasured-volumes.ts'
import type { OpenedSandboxes } from './open-sandboxes.ts'
import type { Stores } from './open-stores.ts'

/** Frozen sandboxes give their memory back before new ones are refused. */
const LOW_MEMORY_FACTOR = 1.5

export interface OpenWatches {
  readonly config: ServerConfig
  readonly stores: Stores
  readonly opened: OpenedSandboxes
}

/**
 * Starts what runs in the background: the watches of disks and idle sandboxes, and the scrub. Pre: recovery has run.
 */
export function openWatches({ config, stores, opened }: OpenWatches, closing: Closing): Scrub {
  const { deps, service, volumes, freeSpace, room, space, record } = opened
  const { engine, sandboxes, listeners, starts, quarantine, clock, log } = deps
  const unmeasured = new UnmeasuredVolumes({
    rows: stores.volumes,
    engine,
    inUse: () => [...writableVolumes(sandboxes), ...volumes.written.take()],
    limitsOf: (row) => volumes.watchedLimitsOf(row),
    onMeasured: (row) =>
      void volumes
        .keepHard(row)
        .catch((err: unknown) => log.warn({ err }, 'the limit of a volume was not set')),
  })
  listeners.push(unmeasured.listener)
  const disk = closing.use(
    new DiskWatch({
      ...{ sandboxes, engine, freeSpace, log },
      journalBytes: (id) => space.bytesOf(id),
      volumes: (onOver) => unmeasured.list(onOver),
    }),
  )
  listeners.push(disk.listener)
  closing.use(
    new IdleWatch({
      ...{ sandboxes, disk, clock, log },
      frozenMemory: new FrozenMemory(config.frozenMemoryBytes),
      freeMemoryBytes: room.freeMemoryBytes,
      isEnding: () => service.isClosing,
      lowMemoryBytes: config.minFreeMemoryBytes * LOW_MEMORY_FACTOR,
    }),
  )
  const { scrub, listener } = openScrub({
    ...{ engine, sandboxes, quarantine, record, clock, log },
    rows: stores.scrub,
    damaged: stores.damaged,
    config: config.scrub,
    isBusy: () => starts.load.running + starts.load.waiting > 0,
  })
  listeners.push(listener)
  return closing.use(scrub)
}

function writableVolumes(sandboxes: Sandboxes): VolumeId[] {
  return [...sandboxes.awake()].flatMap(({ row }) =>
    row.state === 'running'
      ? row.volumes.filter(({ readOnly }) => !readOnly).map(({ volumeId }) => volumeId)
      : [],
  )
}
