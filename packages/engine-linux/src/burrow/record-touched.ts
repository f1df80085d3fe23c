import { rename, writeFile } from 'node:fs/promises'
import { findAheadAddon } from '../host/ahead-addon.ts'
import type { LinuxBurrow } from './linux-burrow.ts'

/** Long enough for the first result of a wake, short enough that most of what is listed was needed for it. */
const DELAY_MS = 300

/**
 * Soon after a wake, lists which memory its processes have touched by then, beside the burrow. The next wake reads the
 * same ahead. The host reads it from the kernel's page tables: nothing comes from inside. Without the list the next
 * wake is slower, so failures are ignored.
 */
export function recordTouchedSoon(burrow: LinuxBurrow): void {
  const addon = findAheadAddon()
  if (addon === undefined) return
  const record = async () => {
    const { touched } = burrow.paths
    const lines = await addon.listTouched(await burrow.pids())
    await writeFile(`${touched}.new`, lines, { mode: 0o600 })
    await rename(`${touched}.new`, touched)
  }
  // The burrow may have ended.
  setTimeout(() => void record().catch(() => {}), DELAY_MS).unref()
}
