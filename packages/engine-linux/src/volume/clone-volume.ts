import type { VolumeId } from '@dormouse/contracts'
import { startVolumeProgram } from './volume-program.ts'
import type { VolumeStore } from './volume-store.ts'

/** Copying gigabytes without shared blocks takes a while. */
const CLONE_MAX_MS = 3600_000

/** Makes the volume `to` with the content of `from`. See native/src/clone-volume.c. */
export async function cloneInto(
  store: VolumeStore,
  { from, to, signal }: { from: VolumeId; to: VolumeId; signal?: AbortSignal | undefined },
): Promise<void> {
  const source = await store.find(from)
  await store.create(to)
  try {
    const target = await store.find(to)
    await using program = startVolumeProgram(source, ['clone', target], { signal, lifeMs: CLONE_MAX_MS })
    await program.entries()
  } catch (error) {
    await store.delete(to)
    signal?.throwIfAborted()
    throw error
  }
}
