import type { Backend, BackendSandbox } from '../backend.ts'

const SAMPLE_MS = 5_000
/** Half an hour. */
const SAMPLES_MAX = 360

interface Sample {
  readonly atMs: number
  readonly cpuMs: number
  /** Share of one CPU since the sample before, in percent. */
  readonly cpuPercent: number
  readonly memoryBytes: number
}

/** Measures the running sandboxes of E2B's clients every few seconds, and remembers the last half hour. */
export class MetricSeries implements Disposable {
  readonly #backend: Pick<Backend, 'records' | 'sandboxes' | 'log'>
  readonly #series = new WeakMap<BackendSandbox, Sample[]>()
  readonly #timer: NodeJS.Timeout

  constructor(backend: Pick<Backend, 'records' | 'sandboxes' | 'log'>) {
    this.#backend = backend
    this.#timer = setInterval(() => void this.#sampleAll(), SAMPLE_MS).unref()
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer)
  }

  /** Samples in this range, the newest last. A sandbox that was never measured is measured now. */
  async of(
    sandbox: BackendSandbox,
    { startMs, endMs }: { startMs: number; endMs: number },
  ): Promise<object[]> {
    if (!this.#series.has(sandbox)) await this.#sample(sandbox)
    const { limits } = sandbox.view()
    const wanted = (this.#series.get(sandbox) ?? []).filter(({ atMs }) => atMs >= startMs && atMs <= endMs)
    return wanted.map(({ atMs, cpuPercent, memoryBytes }) => ({
      timestamp: new Date(atMs).toISOString(),
      timestampUnix: Math.floor(atMs / 1000),
      cpuCount: Math.max(1, Math.round(limits.cpus)),
      cpuUsedPct: cpuPercent,
      memUsed: memoryBytes,
      memTotal: limits.memoryBytes,
      ...{ memCache: 0, diskUsed: 0 },
      diskTotal: limits.diskBytes,
    }))
  }

  async #sampleAll(): Promise<void> {
    const { records, sandboxes } = this.#backend
    for (const { sandboxId } of records.all())
      try {
        const sandbox = sandboxes.get(sandboxId, { keyId: 'server', isAdmin: true })
        if (sandbox.view().state === 'running') await this.#sample(sandbox)
      } catch {
        // It is being deleted, or its burrow has just ended.
      }
  }

  async #sample(sandbox: BackendSandbox): Promise<void> {
    const { usage } = await sandbox.metrics({ withMemory: false })
    // A sandbox that sleeps on disk uses nothing.
    if (usage === undefined) return
    const series = this.#series.get(sandbox) ?? []
    const before = series.at(-1)
    const atMs = Date.now()
    const { cpuMs, memoryBytes } = usage
    // After a wake the counters begin again.
    const usedMs = before === undefined || cpuMs < before.cpuMs ? 0 : cpuMs - before.cpuMs
    const share = usedMs / Math.max(1, atMs - (before?.atMs ?? atMs))
    series.push({ atMs, cpuMs, cpuPercent: Math.round(share * 10_000) / 100, memoryBytes })
    if (series.length > SAMPLES_MAX) series.shift()
    this.#series.set(sandbox, series)
  }
}
