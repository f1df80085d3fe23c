import type { Burrow } from '@dormouse/engine'
import type { ServerClock } from '../clock/server-clock.ts'
import type { SandboxRow } from '../store/sandbox-rows.ts'
import type { SandboxListener } from './sandbox-listener.ts'

export interface CpuUse {
  /** The share of a CPU that was used since the last sample. */
  readonly share: number
  /** The processes used it by themselves. Otherwise that time has the start of the burrow in it, or a call. */
  readonly isOwn: boolean
}

interface Sample {
  readonly at: number
  readonly cpuMs: number
  /** CRIU and PID 1 have restored the processes in their cgroup, so the CPU time after it is not theirs alone. */
  readonly isStart: boolean
}

/** Tells the listeners how long one sandbox ran and what its processes used. */
export class UsageMeter {
  readonly #clock: Pick<ServerClock, 'monotonicMs'>
  readonly #listeners: readonly SandboxListener[]
  #lastSample: Sample | undefined
  #runningSince: number | undefined

  constructor(clock: Pick<ServerClock, 'monotonicMs'>, listeners: readonly SandboxListener[]) {
    this.#clock = clock
    this.#listeners = listeners
  }

  /** `isAdopted`: an earlier server has counted what the burrow used so far. */
  enterBurrow({ isAdopted, isRunning }: { isAdopted: boolean; isRunning: boolean }): void {
    const now = this.#clock.monotonicMs()
    this.#lastSample = isAdopted ? undefined : { at: now, cpuMs: 0, isStart: true }
    if (isRunning) this.#runningSince ??= now
  }

  startRunning(): void {
    this.#runningSince = this.#clock.monotonicMs()
  }

  stopRunning(): void {
    this.#runningSince = undefined
  }

  /** Reports the time since the last call, if the sandbox was running. */
  countRunning(row: SandboxRow): void {
    if (this.#runningSince === undefined) return
    const now = this.#clock.monotonicMs()
    const ms = now - this.#runningSince
    this.#runningSince = now
    for (const listener of this.#listeners) listener.ran?.(row, ms)
  }

  /** Reports what the processes used since the last sample. `uncalledMs`: for so long no call has been active. */
  sample(
    row: SandboxRow,
    usage: Pick<Awaited<ReturnType<Burrow['usage']>>, 'cpuMs' | 'memoryBytes'>,
    uncalledMs: number,
  ): CpuUse | undefined {
    this.countRunning(row)
    const at = this.#clock.monotonicMs()
    const last = this.#lastSample
    this.#lastSample = { at, cpuMs: usage.cpuMs, isStart: false }
    if (last === undefined) return undefined
    const ms = at - last.at
    const cpuMs = Math.max(0, usage.cpuMs - last.cpuMs)
    const sample = { ms, cpuMs, memoryBytes: usage.memoryBytes }
    for (const listener of this.#listeners) listener.sampled?.(row, sample)
    return ms === 0 ? undefined : { share: cpuMs / ms, isOwn: !last.isStart && uncalledMs >= ms }
  }
}
