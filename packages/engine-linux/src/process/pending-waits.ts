import { closeSync, openSync, readdirSync, readFileSync, readSync } from 'node:fs'
import { setImmediate } from 'node:timers/promises'
import { type BlockedCall, CALL, findTimeout, parseBlockedCall, type ReadPair } from './call-timeout.ts'
import { findProcess } from './process-status.ts'
import { WaitClock } from './wait-clock.ts'

/** A thread that waits in a system call with a time-out. */
export interface PendingWait {
  /** As the host sees them. */
  readonly pid: number
  readonly tid: number
  readonly call: BlockedCall
  /** Until the time-out. May be negative: the thread is about to run. */
  readonly leftNs: bigint
  readonly waitedMs: number
}

export interface ClocksInside {
  /** What is added to the host's clocks. */
  readonly monotonicOffsetNs: bigint
  readonly boottimeOffsetNs: bigint
}

/** Hostile code may have thousands of threads. */
const MAX_THREADS = 1_000
/** Reading one takes about 0.1 ms, and this thread serves others. */
const THREADS_AT_ONCE = 20
/** The agent's pid inside. PID 1 is dormouse-init. */
const AGENT_PID = 2
const NS_PER_MS = 1_000_000n

/**
 * Finds the threads of these processes that wait with a time-out, except those of PID 1 and the agent. Call it before
 * they are frozen: afterwards the kernel no longer knows when they last ran. What it finds is only a hint, because the
 * processes run meanwhile and control their memory.
 */
export async function findPendingWaits(
  pids: readonly number[],
  clocks: ClocksInside,
): Promise<readonly PendingWait[]> {
  if (process.arch !== 'x64') return []
  const waits: PendingWait[] = []
  const waitClock = new WaitClock()
  let threads = 0
  for (const pid of pids) {
    const inside = findProcess(pid)?.insidePid
    if (inside === undefined || inside <= AGENT_PID) continue
    using memory = new ProcessMemory(pid)
    for (const tid of list(`/proc/${pid}/task`)) {
      const wait = findWait({ pid, tid }, { clocks, waitClock, memory })
      if (wait !== undefined) waits.push(wait)
      threads += 1
      if (threads === MAX_THREADS) return waits
      if (threads % THREADS_AT_ONCE === 0) await setImmediate()
    }
  }
  return waits
}

function findWait(
  { pid, tid }: { pid: number; tid: string },
  { clocks, waitClock, memory }: { clocks: ClocksInside; waitClock: WaitClock; memory: ProcessMemory },
): PendingWait | undefined {
  const directory = `/proc/${pid}/task`
  const call = findBlockedCall(`${directory}/${tid}`)
  const timeout = call && findTimeout(call, memory.readPair)
  const waitedMs = timeout && waitClock.waitedMs(directory, tid)
  if (call === undefined || timeout === undefined || waitedMs === undefined) return undefined
  const leftNs =
    timeout.kind === 'until'
      ? timeout.ns - nowNs(timeout.clock, clocks)
      : timeout.ns - BigInt(Math.round(waitedMs * 1e6))
  // A relative wait that should be over began later than it seems.
  const isWrong = timeout.kind === 'for' && leftNs < 0n
  return { pid, tid: Number(tid), call, leftNs: isWrong ? timeout.ns : leftNs, waitedMs }
}

/** The call that a thread waits in. A call that was frozen and continued has another number; its arguments are left. */
export function findBlockedCall(thread: string): BlockedCall | undefined {
  const call = parseBlockedCall(read(`${thread}/syscall`))
  if (call?.number !== CALL.restart) return call
  const where = read(`${thread}/wchan`)
  return where.startsWith('futex') ? { ...call, number: CALL.futex } : undefined
}

/** Reads the offsets of a time namespace; `pid` is a process in it. */
export function readClockOffsets(pid: number): ClocksInside {
  const text = read(`/proc/${pid}/timens_offsets`)
  const offset = (name: string) => {
    const { seconds = '0', ns = '0' } =
      new RegExp(`^${name}\\s+(?<seconds>-?\\d+)\\s+(?<ns>\\d+)$`, 'm').exec(text)?.groups ?? {}
    return BigInt(seconds) * 1_000_000_000n + BigInt(ns)
  }
  return { monotonicOffsetNs: offset('monotonic'), boottimeOffsetNs: offset('boottime') }
}

function nowNs(clock: 'realtime' | 'monotonic' | 'boottime', clocks: ClocksInside): bigint {
  if (clock === 'realtime') return BigInt(Date.now()) * NS_PER_MS
  if (clock === 'monotonic') return process.hrtime.bigint() + clocks.monotonicOffsetNs
  const [seconds = '0'] = read('/proc/uptime').split(' ')
  return BigInt(Math.round(Number(seconds) * 1000)) * NS_PER_MS + clocks.boottimeOffsetNs
}

/**
 * The memory of a process, opened when it is first read. No read waits for anything inside: the filters of every
 * process forbid `userfaultfd`.
 */
class ProcessMemory implements Disposable {
  readonly #pid: number
  #fd: number | undefined

  constructor(pid: number) {
    this.#pid = pid
  }

  readonly readPair: ReadPair = (address) => {
    const bytes = Buffer.alloc(16)
    try {
      this.#fd ??= openSync(`/proc/${this.#pid}/mem`, 'r')
      if (readSync(this.#fd, bytes, 0, 16, address) !== 16) return undefined
    } catch {
      return undefined
    }
    return [bytes.readBigInt64LE(0), bytes.readBigInt64LE(8)]
  };

  [Symbol.dispose](): void {
    if (this.#fd !== undefined) closeSync(this.#fd)
  }
}

function list(directory: string): string[] {
  try {
    return readdirSync(directory)
  } catch {
    return []
  }
}

function read(path: string): string {
  try {
    return readFileSync(path, 'latin1')
  } catch {
    return ''
  }
}
