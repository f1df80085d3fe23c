import { Option } from 'commander'
import { defined, definedOrNothing } from './defined.ts'
import { bytesFlag, durationFlag, numberFlag } from './flags.ts'

/** How a sandbox is treated: what is said of it when it is made, and can be changed later. */
export interface PolicyFlags {
  readonly memory?: number
  readonly cpus?: number
  readonly pids?: number
  readonly disk?: number
  readonly files?: number
  readonly idle?: number
  readonly storeAfter?: number
  readonly expiresAfter?: number
  readonly expiresIdle?: number
}

export function policyOptions(): Option[] {
  return [
    new Option('--memory <size>', 'at most so much memory, such as 4GiB').argParser(bytesFlag('--memory')),
    new Option('--cpus <number>', 'at most so many CPUs').argParser(numberFlag('--cpus')),
    new Option('--pids <number>', 'at most so many processes and threads').argParser(numberFlag('--pids')),
    new Option('--disk <size>', 'at most so much written to disk, such as 20GiB').argParser(
      bytesFlag('--disk'),
    ),
    new Option('--files <number>', 'at most so many files, directories and links made').argParser(
      numberFlag('--files'),
    ),
    new Option('--idle <time>', 'go to standby after so long without work, such as 15s; 0: never').argParser(
      durationFlag('--idle'),
    ),
    new Option('--store-after <time>', 'keep nothing in memory after so long in standby').argParser(
      durationFlag('--store-after'),
    ),
    new Option('--expires-after <time>', 'delete it so long after it was made').argParser(
      durationFlag('--expires-after'),
    ),
    new Option('--expires-idle <time>', 'delete it so long after it was last used').argParser(
      durationFlag('--expires-idle'),
    ),
  ]
}

/** As the server takes it. */
export function policyOf(flags: PolicyFlags) {
  const { memory, cpus, pids, disk, files, idle, storeAfter, expiresAfter, expiresIdle } = flags
  const expires = definedOrNothing({ afterMs: expiresAfter, idleMs: expiresIdle })
  return defined({
    limits: definedOrNothing({ memoryBytes: memory, cpus, pids, diskBytes: disk, files }),
    idleTimeoutMs: idle,
    storeAfterMs: storeAfter,
    expires: expires && { ...expires, action: 'delete' as const },
  })
}
