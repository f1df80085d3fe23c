import { fulfilled, settledWithin } from '@dormouse/async'
import { hasErrorCode, type VolumeId } from '@dormouse/contracts'
import type { SizeLimit, VolumeLimits } from '@dormouse/engine'
import { startVolumeProgram } from './volume-program.ts'
import type { VolumeStore } from './volume-store.ts'

/** Copying gigabytes without shared blocks takes a while. */
const CLONE_MAX_MS = 3600_000
/** How long sandboxes may be stopped for a clone. Cloning by shared blocks takes less for thousands of files. */
const HOLD_MAX_MS = 2_000

/** A burrow that can write to the volume. */
export interface Writer {
  /** Stops its processes until `release`. */
  holdFiles(): Promise<{ release(): Promise<void> }>
}

export interface CloneVolume {
  readonly from: VolumeId
  readonly to: VolumeId
  readonly limits?: VolumeLimits
  readonly signal?: AbortSignal | undefined
  readonly writers: () => readonly Writer[]
  /** Runs `work` while no burrow with the volume starts, is saved or is replaced. */
  readonly whileUnused: <Value>(work: () => Promise<Value>) => Promise<Value>
  /** Counts changes through the API; undefined while one is under way. */
  readonly countChanges: () => number | undefined
}

/** Makes the volume `to` with the content of `from`. See native/src/clone-volume.c. */
export async function cloneInto(
  store: VolumeStore,
  clone: CloneVolume,
): Promise<{ sizeLimit: SizeLimit; isOneMoment: boolean }> {
  const { from, to, limits, signal } = clone
  const source = await store.find(from)
  const sizeLimit = await store.create(to, limits)
  try {
    const target = await store.find(to)
    const isOneMoment = await copy({ source, target }, clone)
    return { sizeLimit, isOneMoment }
  } catch (error) {
    await store.delete(to)
    signal?.throwIfAborted()
    throw error
  }
}

async function copy(
  { source, target }: { source: string; target: string },
  { signal, writers, whileUnused, countChanges }: CloneVolume,
): Promise<boolean> {
  // What is not on disk yet would have to be written while the sandboxes are stopped.
  if (writers().length > 0) {
    await using program = startVolumeProgram(source, ['sync', '/'], { signal })
    await program.entries()
  }
  const options = { signal, lifeMs: CLONE_MAX_MS }
  let program: ReturnType<typeof startVolumeProgram> | undefined
  try {
    const isWhole = await whileUnused(async () => {
      const { held, isEach } = await holdAll(writers())
      try {
        const before = countChanges()
        program = startVolumeProgram(source, ['clone', target], options)
        const isInTime = await settledWithin(program.begun(), HOLD_MAX_MS)
        return isEach && isInTime && before !== undefined && countChanges() === before
      } finally {
        await Promise.all(held.map((one) => one.release()))
      }
    })
    await program?.entries()
    return isWhole
  } finally {
    await program?.[Symbol.asyncDispose]()
  }
}

/** A sandbox that cannot be stopped does not prevent the clone. */
async function holdAll(writers: readonly Writer[]) {
  const results = await Promise.allSettled(writers.map((writer) => writer.holdFiles()))
  const isEach = results.every(
    (one) => one.status === 'fulfilled' || hasErrorCode(one.reason, 'burrow_ended'),
  )
  return { held: results.flatMap(fulfilled), isEach }
}
