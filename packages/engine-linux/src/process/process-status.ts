import { readdirSync, readFileSync } from 'node:fs'

/** What the kernel reports about one thread in /proc/<pid>/task/<tid>/status. */
export interface ThreadStatus {
  /**
   * The pid as the host sees it, and as the burrow does. `insidePid` is undefined for a process of the host's pid
   * namespace.
   */
  readonly pid: number
  readonly insidePid: number | undefined
  readonly parentPid: number
  readonly tracerPid: number
  readonly threadCount: number
  /** The kernel's letter: Z and X have ended, D waits for something that no signal interrupts. */
  readonly state: string
  readonly hasNoNewPrivileges: boolean
  /** 2 when the thread has filters. */
  readonly seccompMode: number
  /** Undefined where the kernel does not count them (before 5.9). */
  readonly filterCount: number | undefined
  /** All capabilities that it has, may get or may pass on. */
  readonly capabilities: bigint
  /** Signals that are pending for the whole process. */
  readonly pendingSignals: bigint
}

const CAPABILITY_SETS = ['CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb']

/** Undefined when there is no such thread. Synchronous: the kernel has it in memory. */
export function findStatus(path: string): ThreadStatus | undefined {
  const text = read(path)
  if (text === undefined) return undefined
  const fields = new Map(
    text
      .split('\n')
      .map((line) => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 1).trim()]),
  )
  const numberOf = (name: string) => Number(fields.get(name) ?? 'NaN')
  const setOf = (name: string) => BigInt(`0x${fields.get(name) ?? '0'}`)
  const pids = (fields.get('NSpid') ?? '').split(/\s+/).map(Number)
  return {
    pid: numberOf('Pid'),
    insidePid: pids.length > 1 ? pids.at(-1) : undefined,
    parentPid: numberOf('PPid'),
    tracerPid: numberOf('TracerPid'),
    threadCount: numberOf('Threads'),
    state: fields.get('State')?.[0] ?? '',
    hasNoNewPrivileges: numberOf('NoNewPrivs') === 1,
    seccompMode: numberOf('Seccomp'),
    filterCount: fields.has('Seccomp_filters') ? numberOf('Seccomp_filters') : undefined,
    capabilities: CAPABILITY_SETS.map(setOf).reduce((all, set) => all | set, 0n),
    pendingSignals: setOf('ShdPnd'),
  }
}

export function findProcess(pid: number): ThreadStatus | undefined {
  return findStatus(`/proc/${pid}/status`)
}

/** All threads of a process. Empty when it has ended meanwhile. */
export function listThreads(process: ThreadStatus): ThreadStatus[] {
  if (process.threadCount === 1) return [process]
  const directory = `/proc/${process.pid}/task`
  return entries(directory).flatMap((tid) => findStatus(`${directory}/${tid}/status`) ?? [])
}

function entries(directory: string): string[] {
  try {
    return readdirSync(directory)
  } catch {
    return []
  }
}

function read(path: string): string | undefined {
  try {
    return readFileSync(path, 'latin1')
  } catch {
    return undefined
  }
}
