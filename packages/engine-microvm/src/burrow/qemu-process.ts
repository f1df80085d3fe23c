import { readFile } from 'node:fs/promises'
import type { BurrowMemory } from '@dormouse/engine'
import type { FirstProcess } from '@dormouse/engine-linux/for-engines'

/** Bytes that QEMU has written to disks since it started. */
export async function writtenByQemu({ pid }: FirstProcess): Promise<number> {
  const text = await readFile(`/proc/${pid}/io`, 'utf8').catch(() => '')
  return Number(/^write_bytes: (\d+)$/m.exec(text)?.[1] ?? 0)
}

/** Undefined when QEMU has ended. */
export async function memoryOfQemu({ pid }: FirstProcess): Promise<BurrowMemory | undefined> {
  const text = await readFile(`/proc/${pid}/smaps_rollup`, 'utf8').catch(() => '')
  if (text === '') return undefined
  const of = (name: string) => Number(new RegExp(`^${name}:\\s+(\\d+) kB$`, 'm').exec(text)?.[1] ?? 0) * 1024
  return {
    privateBytes: of('Private_Dirty') + of('Private_Clean'),
    sharedBytes: of('Shared_Clean') + of('Shared_Dirty'),
    proportionalBytes: of('Pss'),
    copied: [],
  }
}
