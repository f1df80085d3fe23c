import type { NetworkCountersAnswer } from '@dormouse/contracts/http'
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client'
import type { Metrics } from '../api/services.ts'
import type { Admission } from '../sandbox/admission.ts'
import type { SandboxListener } from '../sandbox/sandbox-listener.ts'

/** From a thaw to a wake on a host that is drowning. */
const LATENCY_BUCKETS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]

export interface ServerMetricsOptions {
  readonly sandboxes: () => Iterable<{
    readonly body: { readonly row: { readonly state: string; readonly tier: string | undefined } }
  }>
  readonly admission: Pick<Admission, 'load'>
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

/** Numbers of the whole host for Prometheus. No ids and no names: any key may read them. */
export class ServerMetrics implements Metrics {
  readonly #registry = new Registry()
  readonly #transitions: Counter<'event' | 'tier'>
  readonly #latency: Histogram<'event' | 'tier'>
  readonly #cpuSeconds: Counter

  constructor(options: ServerMetricsOptions) {
    const registers = [this.#registry]
    collectDefaultMetrics({ register: this.#registry, prefix: 'dormouse_' })
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
    new Gauge({
      name: 'dormouse_sandboxes',
      help: 'Sandboxes by state and tier.',
      labelNames: ['state', 'tier'],
      registers,
      collect() {
        this.reset()
        for (const { body } of options.sandboxes())
          this.inc({ state: body.row.state, tier: body.row.tier ?? '' })
      },
    })
    const gauge = (name: string, help: string, read: () => number | Promise<number>) =>
      new Gauge({
        name,
        help,
        registers,
        async collect() {
          this.set(await read())
        },
      })
    const counter = (name: string, help: string, read: (counters: NetworkCountersAnswer) => number) =>
      new Counter({
        name,
        help,
        registers,
        collect() {
          this.reset()
          this.inc(read(options.network()))
        },
      })
    counter(
      'dormouse_network_connections_total',
      'Connections of sandboxes to the outside.',
      (all) => all.connections,
    )
    counter('dormouse_network_denied_total', 'What policies of sandboxes refused.', (all) => all.denied)
    counter('dormouse_network_names_total', 'Names that sandboxes asked for.', (all) => all.names)
    counter('dormouse_network_out_bytes_total', 'Bytes that left sandboxes.', (all) => all.bytesOut)
    counter('dormouse_network_in_bytes_total', 'Bytes that sandboxes got from outside.', (all) => all.bytesIn)
    new Counter({
      name: 'dormouse_engine_failures_total',
      help: 'Background work of the engine that failed, by kind.',
      labelNames: ['kind'],
      registers,
      collect() {
        this.reset()
        for (const [kind, count] of options.engineFailures()) this.inc({ kind }, count)
      },
    })
    new Counter({
      name: 'dormouse_scrub_read_bytes_total',
      help: 'What the scrub has read.',
      registers,
      collect() {
        this.reset()
        this.inc(options.scrub().readBytes)
      },
    })
    gauge(
      'dormouse_scrub_last_pass_timestamp_seconds',
      'When the scrub last finished reading all that is stored; 0: never.',
      () => (options.scrub().finishedAt ?? 0) / 1000,
    )
    gauge(
      'dormouse_damaged_snapshots',
      'Snapshots that are known to be damaged.',
      () => options.scrub().damagedSnapshots,
    )
    gauge('dormouse_runs', 'Runs under way.', options.runsUnderWay)
    gauge('dormouse_starts', 'Burrows being started now.', () => options.admission.load.running)
    gauge('dormouse_starts_waiting', 'Starts that wait for their turn.', () => options.admission.load.waiting)
    gauge('dormouse_free_memory_bytes', 'Memory that the host has left.', options.freeMemoryBytes)
    gauge('dormouse_free_disk_bytes', 'Disk that the data directory has left.', options.freeDiskBytes)
  }

  get contentType(): string {
    return this.#registry.contentType
  }

  text(): Promise<string> {
    return this.#registry.metrics()
  }

  get listener(): SandboxListener {
    return {
      recorded: (_row, { event, tier = '' as const, latencyMs }) => {
        this.#transitions.inc({ event, tier })
        if (latencyMs !== undefined) this.#latency.observe({ event, tier }, latencyMs / 1000)
      },
      woke: (_row, { tier, latencyMs }) => this.#latency.observe({ event: 'woke', tier }, latencyMs / 1000),
      sampled: (_row, { cpuMs }) => this.#cpuSeconds.inc(cpuMs / 1000),
    }
  }
}
