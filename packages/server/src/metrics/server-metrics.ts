import type { NetworkCountersAnswer } from '@dormouse/contracts/http'
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client'
import type { NewLedgerEntry } from '../store/ledger-rows.ts'
import type { SandboxRow, Tier } from '../store/sandbox-rows.ts'
import type { Metrics } from './metrics.ts'

/** From a thaw to a wake on an overloaded host. */
const LATENCY_BUCKETS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]

export interface ServerMetricsOptions {
  readonly sandboxes: () => Iterable<{ readonly row: Pick<SandboxRow, 'state' | 'tier'> }>
  /** Burrows that are being started, and starts that wait. */
  readonly starts: { readonly load: { readonly running: number; readonly waiting: number } }
  readonly runsUnderWay: () => number
  readonly network: () => NetworkCountersAnswer
  readonly engineFailures: () => ReadonlyMap<string, number>
  readonly scrub: () => {
    readonly readBytes: number
    readonly finishedAt: number | undefined
    readonly damagedSnapshots: number
  }
  readonly freeMemoryBytes: () => Promise<number>
  readonly freeDiskBytes: () => Promise<number>
}

export interface ClusterNumbers {
  readonly nodes: ReadonlyMap<string, number>
  readonly sandboxes: ReadonlyMap<string, number>
  readonly unreplicated: number
}

/**
 * The library watches the event loop with a timer. Its default of 10 ms takes 0.2 % of a core, day and night. The
 * percentiles of the lag include this interval, so their smallest value is 0.1 s.
 */
const LAG_EVERY_MS = 100

/** Numbers of the whole host for Prometheus. No ids and no names: any key may read them. */
export class ServerMetrics implements Metrics {
  readonly #registry = new Registry()
  readonly #transitions: Counter<'event' | 'tier'>
  readonly #latency: Histogram<'event' | 'tier'>
  readonly #cpuSeconds: Counter

  constructor(options: ServerMetricsOptions) {
    const registers = [this.#registry]
    collectDefaultMetrics({
      register: this.#registry,
      prefix: 'dormouse_',
      eventLoopMonitoringPrecision: LAG_EVERY_MS,
    })
    this.#transitions = new Counter({
      name: 'dormouse_transitions_total',
      help: 'What happened to sandboxes, as in their ledgers.',
      labelNames: ['event', 'tier'],
      registers,
    })
    this.#latency = new Histogram({
      name: 'dormouse_transition_seconds',
      help: 'How long it took.',
      labelNames: ['event', 'tier'],
      buckets: LATENCY_BUCKETS,
      registers,
    })
    this.#cpuSeconds = new Counter({
      name: 'dormouse_sandbox_cpu_seconds_total',
      help: 'CPU time of all sandboxes.',
      registers,
    })
    const readings = new Readings(this.#registry)
    addSandboxMetrics(readings, options)
    addNetworkMetrics(readings, options)
    addScrubMetrics(readings, options)
    addHostMetrics(readings, options)
  }

  /** Numbers of the whole cluster, the same on every host. */
  addCluster(read: () => ClusterNumbers): void {
    const readings = new Readings(this.#registry)
    const labelled = (name: string, help: string, of: (all: ClusterNumbers) => ReadonlyMap<string, number>) =>
      readings.labelled(Gauge, { name, help, labelNames: ['state'] }, () =>
        [...of(read())].map(([state, value]) => ({ labels: { state }, value })),
      )
    labelled('dormouse_cluster_nodes', 'Hosts of the cluster by state.', ({ nodes }) => nodes)
    labelled('dormouse_cluster_sandboxes', 'Sandboxes of all hosts by state.', (all) => all.sandboxes)
    readings.gauge(
      'dormouse_cluster_unreplicated_sandboxes',
      'Sleeping sandboxes whose newest snapshot is on one host only.',
      () => read().unreplicated,
    )
  }

  get contentType(): string {
    return this.#registry.contentType
  }

  text(): Promise<string> {
    return this.#registry.metrics()
  }

  get listener() {
    return {
      recorded: (_row: SandboxRow, { event, tier, latencyMs }: NewLedgerEntry) => {
        const labels = { event, tier: tier ?? '' }
        this.#transitions.inc(labels)
        if (latencyMs !== undefined) this.#latency.observe(labels, latencyMs / 1000)
      },
      woke: (_row: SandboxRow, { tier, latencyMs }: { tier: Tier; latencyMs: number }) =>
        this.#latency.observe({ event: 'woke', tier }, latencyMs / 1000),
      sampled: (_row: SandboxRow, { cpuMs }: { cpuMs: number }) => this.#cpuSeconds.inc(cpuMs / 1000),
    }
  }
}

interface Reading {
  readonly labels?: Record<string, string>
  readonly value: number
}

/** Metrics that are read when Prometheus asks. */
class Readings {
  readonly #registry: Registry

  constructor(registry: Registry) {
    this.#registry = registry
  }

  gauge(name: string, help: string, read: () => number | Promise<number>): void {
    new Gauge({
      ...{ name, help, registers: [this.#registry] },
      async collect() {
        this.set(await read())
      },
    })
  }

  /** A number that its source counts up. */
  counter(name: string, help: string, read: () => number): void {
    new Counter({
      ...{ name, help, registers: [this.#registry] },
      collect() {
        this.reset()
        this.inc(read())
      },
    })
  }

  labelled(
    Metric: typeof Gauge | typeof Counter,
    { name, help, labelNames }: { name: string; help: string; labelNames: string[] },
    read: () => Iterable<Reading>,
  ): void {
    new Metric({
      ...{ name, help, labelNames, registers: [this.#registry] },
      collect() {
        this.reset()
        for (const { labels = {}, value } of read()) this.inc(labels, value)
      },
    })
  }
}

function addSandboxMetrics(
  readings: Readings,
  { sandboxes, runsUnderWay, starts }: ServerMetricsOptions,
): void {
  readings.labelled(
    Gauge,
    {
      name: 'dormouse_sandboxes',
      help: 'Sandboxes by state and tier.',
      labelNames: ['state', 'tier'],
    },
    () =>
      [...sandboxes()].map(({ row }) => ({ labels: { state: row.state, tier: row.tier ?? '' }, value: 1 })),
  )
  readings.gauge('dormouse_runs', 'Runs under way.', runsUnderWay)
  readings.gauge('dormouse_starts', 'Burrows being started now.', () => starts.load.running)
  readings.gauge('dormouse_starts_waiting', 'Starts that wait for their turn.', () => starts.load.waiting)
}

function addNetworkMetrics(readings: Readings, { network }: ServerMetricsOptions): void {
  const counters: [name: string, help: string, read: (all: NetworkCountersAnswer) => number][] = [
    ['connections', 'Connections of sandboxes to the outside.', (all) => all.connections],
    ['denied', 'Connections and names that policies of sandboxes denied.', (all) => all.denied],
    ['names', 'Names that sandboxes looked up.', (all) => all.names],
    ['out_bytes', 'Bytes that left sandboxes.', (all) => all.bytesOut],
    ['in_bytes', 'Bytes that sandboxes got from outside.', (all) => all.bytesIn],
  ]
  for (const [name, help, read] of counters)
    readings.counter(`dormouse_network_${name}_total`, help, () => read(network()))
}

function addScrubMetrics(readings: Readings, { scrub }: ServerMetricsOptions): void {
  readings.counter(
    'dormouse_scrub_read_bytes_total',
    'Bytes that the scrub has read.',
    () => scrub().readBytes,
  )
  readings.gauge(
    'dormouse_scrub_last_pass_timestamp_seconds',
    'When the last complete pass of the scrub ended; 0: never.',
    () => (scrub().finishedAt ?? 0) / 1000,
  )
  readings.gauge(
    'dormouse_damaged_snapshots',
    'Snapshots that are known to be damaged.',
    () => scrub().damagedSnapshots,
  )
}

function addHostMetrics(readings: Readings, options: ServerMetricsOptions): void {
  readings.labelled(
    Counter,
    {
      name: 'dormouse_engine_failures_total',
      help: 'Background work of the engine that failed, by kind.',
      labelNames: ['kind'],
    },
    () => [...options.engineFailures()].map(([kind, value]) => ({ labels: { kind }, value })),
  )
  readings.gauge('dormouse_free_memory_bytes', 'Free memory of the host.', options.freeMemoryBytes)
  readings.gauge('dormouse_free_disk_bytes', 'Free disk space for the data directory.', options.freeDiskBytes)
}
