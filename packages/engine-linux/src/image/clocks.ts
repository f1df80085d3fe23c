import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { readSingleRecord } from './image-file.ts'
import { getMessage, getUint, type Message } from './message.ts'

export interface Clocks {
  readonly monotonicNs: bigint
  readonly boottimeNs: bigint
}

const TIMENS = { monotonic: 1, boottime: 2 } as const
const TIMESPEC = { seconds: 1, nanoseconds: 2 } as const

/** Returns what the clocks of the processes showed when they were dumped. */
export async function readClocks(imageDir: string): Promise<Clocks> {
  const name = (await readdir(imageDir)).find((candidate) => /^timens-\d+\.img$/.test(candidate))
  if (name === undefined) throw new Error(`${imageDir} has no image of a time namespace`)
  const timens = await readSingleRecord(join(imageDir, name))
  return {
    monotonicNs: toNanoseconds(getMessage(timens, TIMENS.monotonic)),
    boottimeNs: toNanoseconds(getMessage(timens, TIMENS.boottime)),
  }
}

function toNanoseconds(timespec: Message): bigint {
  return getUint(timespec, TIMESPEC.seconds) * 1_000_000_000n + getUint(timespec, TIMESPEC.nanoseconds)
}
