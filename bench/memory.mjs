import { readFile } from 'node:fs/promises'

const KEYS = { privateDirty: 'Private_Dirty', anonymous: 'Anonymous', pss: 'Pss', rss: 'Rss' }

/**
 * The memory of all processes of a burrow, in bytes. Leaves out Private_Clean: it includes pages of the page cache that
 * only one process maps at this moment.
 */
export async function burrowMemory(burrow) {
  const sums = { privateDirty: 0, anonymous: 0, pss: 0, rss: 0 }
  for (const pid of await burrow.pids()) {
    const rollup = await readFile(`/proc/${pid}/smaps_rollup`, 'utf8').catch(() => '')
    for (const [name, key] of Object.entries(KEYS)) {
      const kib = new RegExp(`^${key}:\\s*(?<kib>\\d+) kB$`, 'm').exec(rollup)?.groups?.kib
      sums[name] += Number(kib ?? 0) * 1024
    }
  }
  const { memoryBytes } = await burrow.usage()
  return { ...sums, charged: memoryBytes }
}
