import { Option } from 'commander'
import { bytesFlag, durationFlag, numberFlag } from './flags.ts'
import { omitUndefined, omitUndefinedOrNone } from './omit-undefined.ts'

/** Limits and policy of a sandbox: set by `create`, changed by `update`. */
export interface PolicyFlags {
  readonly memory?: number
  readonly cpus?: number
  readonly pids?: number
  readonly disk?: number
  readonly files?: number
  readonly idle?: number
  readonly storeAfter?: number
  readonly maxBackground?: number
  readonly wakeOnTimer?: boolean
  readonly keepAsleep?: number
  readonly wakeOnData?: boolean
  readonly atMemoryLimit?: 'kill' | 'pause'
  readonly checkpointEvery?: number
  readonly expiresAfter?: number
  readonly expiresIdle?: number
}

export function policyOptions(): Option[] {
  return [
    new Option('--memory <size>', 'memory limit, such as 4GiB').argParser(bytesFlag('--memory')),
    new Option('--cpus <number>', 'CPU limit').argParser(numberFlag('--cpus')),
    new Option('--pids <number>', 'limit of processes and threads').argParser(numberFlag('--pids')),
    new Option('--disk <size>', 'limit of data written to disk, such as 20GiB').argParser(
      bytesFlag('--disk'),
    ),
    new Option('--files <number>', 'limit of files, directories and links').argParser(numberFlag('--files')),
    new Option(
      '--idle <time>',
      'go to standby after this time without work, such as 15s; 0 means never',
    ).argParser(durationFlag('--idle')),
    new Option('--store-after <time>', 'after this time in standby, keep the sandbox on disk only').argParser(
      durationFlag('--store-after'),
    ),
    new Option(
      '--max-background <time>',
      'how long background processes keep the sandbox awake after its last use; 0 means never',
    ).argParser(durationFlag('--max-background')),
    new Option(
      '--wake-on-timer',
      'let clocks continue while the sandbox sleeps, and wake it for timers of its processes',
    ),
    new Option(
      '--keep-asleep <time>',
      'how long connections to the outside are kept while the sandbox sleeps; 0 means not at all',
    ).argParser(durationFlag('--keep-asleep')),
    new Option('--wake-on-data', 'wake the sandbox when data arrives on such a connection'),
    new Option(
      '--at-memory-limit <what>',
      'at the memory limit, kill a process, or pause: save the sandbox until the limit is raised',
    ).choices(['kill', 'pause']),
    checkpointOption(),
    new Option('--expires-after <time>', 'delete the sandbox this long after its creation').argParser(
      durationFlag('--expires-after'),
    ),
    new Option('--expires-idle <time>', 'delete the sandbox this long after its last use').argParser(
      durationFlag('--expires-idle'),
    ),
  ]
}

/** Of sandboxes and of replicas of services. */
export function checkpointOption(): Option {
  return new Option(
    '--checkpoint-every <time>',
    'save the sandbox this often while it runs, so that a crash costs no more; 0 means never',
  ).argParser(durationFlag('--checkpoint-every'))
}

/** The fields of the API. */
export function toPolicy(flags: PolicyFlags) {
  const { memory, cpus, pids, disk, files, idle, storeAfter, maxBackground, wakeOnTimer } = flags
  const { atMemoryLimit, checkpointEvery, keepAsleep, wakeOnData, expiresAfter, expiresIdle } = flags
  const expires = omitUndefinedOrNone({ afterMs: expiresAfter, idleMs: expiresIdle })
  return omitUndefined({
    limits: omitUndefinedOrNone({ memoryBytes: memory, cpus, pids, diskBytes: disk, files }),
    idleTimeoutMs: idle,
    storeAfterMs: storeAfter,
    maxBackgroundMs: maxBackground,
    wakeOnTimer,
    connections: omitUndefinedOrNone({ keepAsleepMs: keepAsleep, wakeOnData }),
    atMemoryLimit,
    checkpointEveryMs: checkpointEvery,
    expires: expires && { ...expires, action: 'delete' as const },
  })
}
