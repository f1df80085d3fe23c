import { readFileSync } from 'node:fs'
import { uptime } from 'node:os'

/** The kernel's unit of the start times in /proc (USER_HZ). */
const TICKS_PER_S = 100
/**
 * The scheduler's clocks of two CPUs differ by what the hypervisor took from each, which the kernel reports only
 * roughly. A thread that seems to have waited since about its start has waited since its start.
 */
const CLOCK_ERROR_MS = 1_500

/** By CPU, as last measured: what has to be added to the scheduler's clock, besides stolen time, to get the host's. */
const offsetsMs = new Map<number, number>()

/**
 * Tells how long threads have waited. The scheduler notes when a thread last ran, in milliseconds on the clock of the
 * CPU it ran on. That clock omits the time that the hypervisor took from the CPU, so each CPU has its own.
 */
export class WaitClock {
  readonly #stolenMs = stolenMs()
  /** Of the CPU that this thread runs on. Undefined: the kernel does not show when threads last ran. */
  readonly #offsetMs: number | undefined

  constructor() {
    const ranMs = lastRanMs('/proc/self/task', `${process.pid}`)
    const cpu = readStat(`/proc/self/task/${process.pid}`)?.cpu
    if (ranMs === undefined || cpu === undefined) return
    // This thread runs, so it last ran now.
    this.#offsetMs = performance.now() - ranMs - (this.#stolenMs.get(cpu) ?? 0)
    offsetsMs.set(cpu, this.#offsetMs)
  }

  /** Milliseconds since the thread last ran. `directory` is /proc/<pid>/task. Undefined when it has ended. */
  waitedMs(directory: string, tid: string): number | undefined {
    const stat = readStat(`${directory}/${tid}`)
    if (stat === undefined) return undefined
    const livedMs = Math.max(0, uptime() * 1000 - stat.startedMs)
    const ranMs = lastRanMs(directory, tid)
    if (this.#offsetMs === undefined || ranMs === undefined) return livedMs
    const ranAtMs = ranMs + (this.#stolenMs.get(stat.cpu) ?? 0) + (offsetsMs.get(stat.cpu) ?? this.#offsetMs)
    const waitedMs = performance.now() - ranAtMs
    return Math.max(0, waitedMs > livedMs - CLOCK_ERROR_MS ? livedMs : waitedMs)
  }
}

/** `se.exec_start`, which kernels without CONFIG_SCHED_DEBUG do not show. */
function lastRanMs(directory: string, tid: string): number | undefined {
  const match = /^se\.exec_start\s*:\s*(?<ms>[\d.]+)$/m.exec(read(`${directory}/${tid}/sched`) ?? '')
  return match?.groups === undefined ? undefined : Number(match.groups['ms'])
}

/** What the hypervisor has taken from each CPU since the boot. */
function stolenMs(): ReadonlyMap<number, number> {
  const lines = (read('/proc/stat') ?? '').matchAll(/^cpu(?<cpu>\d+) (?<times>.*)$/gm)
  return new Map(
    [...lines].map(({ groups }) => {
      const stolen = Number(groups?.['times']?.split(' ')[7] ?? 0)
      return [Number(groups?.['cpu']), (stolen * 1000) / TICKS_PER_S]
    }),
  )
}

/** The start of a thread, in milliseconds since the boot, and the CPU on which it last ran. */
function readStat(path: string): { startedMs: number; cpu: number } | undefined {
  const stat = read(`${path}/stat`)
  if (stat === undefined) return undefined
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return { startedMs: (Number(fields[19]) * 1000) / TICKS_PER_S, cpu: Number(fields[36]) }
}

/** Synchronous: the kernel has it in memory. */
function read(path: string): string | undefined {
  try {
    return readFileSync(path, 'latin1')
  } catch {
    return undefined
  }
}
