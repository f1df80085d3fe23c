import { setTimeout as sleep } from 'node:timers/promises'
import { abortable, Limiter } from '@dormouse/async'
import type { LedgerEntry } from 'dormouse'
import { Sandbox, type SandboxInfo } from 'dormouse'
import { formatBytes, formatDistance, formatMs } from '../../format/amounts.ts'
import { formatTable } from '../../format/table.ts'
import type { Call } from '../call.ts'
import { QuitKey } from '../quit-key.ts'
import { shortName, stateText } from './ls.ts'

interface TopFlags {
  readonly once?: boolean
  readonly lines?: number
}

type Metrics = Awaited<ReturnType<Sandbox['metrics']>>
type Usage = NonNullable<Metrics['usage']>
type Wake = Pick<LedgerEntry, 'at' | 'cause' | 'tier' | 'latencyMs'>

interface Row extends Pick<Metrics, 'usage' | 'memory'> {
  readonly info: SandboxInfo
  readonly cpuPercent?: number | undefined
  readonly lastWake?: Wake | undefined
}

const EVERY_MS = 1000
/** The summary, the heads of the columns, the line for hidden rows, the line with keys, and empty lines. */
const LINES_AROUND_ROWS = 6
const REQUESTS_AT_ONCE = 8
const HOME_AND_CLEAR = '\x1b[H\x1b[J'
const OTHER_SCREEN = '\x1b[?1049h\x1b[?25l'
const OWN_SCREEN = '\x1b[?25h\x1b[?1049l'

export async function top(call: Call, { once = false, lines }: TopFlags): Promise<void> {
  const { stdout } = call.io
  const collector = new RowCollector(call)
  if (stdout.isTTY && !once && !call.isJson) return showLive(call, collector, lines)
  for (;;) {
    const rows = await collector.rows(lines)
    if (call.isJson) call.printJsonLine({ at: new Date().toISOString(), sandboxes: rows.slice(0, lines) })
    else stdout.write(formatRows(rows, lines))
    if (once) return
    await sleep(EVERY_MS, undefined, { signal: call.signal })
  }
}

/** Until `q` or Ctrl-C. */
async function showLive(call: Call, collector: RowCollector, lines: number | undefined): Promise<void> {
  const { stdout } = call.io
  stdout.write(OTHER_SCREEN)
  using keys = new QuitKey(call.io)
  try {
    for (;;) {
      const limit = lines ?? Math.max(1, (stdout.rows || 24) - LINES_AROUND_ROWS)
      const rows = await abortable(collector.rows(limit), keys.signal)
      stdout.write(`${HOME_AND_CLEAR}${formatRows(rows, limit)}\nq: quit`)
      await sleep(EVERY_MS, undefined, { signal: AbortSignal.any([call.signal, keys.signal]) })
    }
  } catch (error) {
    if (!keys.signal.aborted || call.signal.aborted) throw error
  } finally {
    stdout.write(OWN_SCREEN)
  }
}

/** Reads the rows of the table. Keeps the known wakes and the last CPU times between two tables. */
class RowCollector {
  readonly #call: Call
  readonly #wakes = new Map<string, { seq: number; wake: Wake | undefined }>()
  readonly #cpu = new Map<string, { cpuMs: number; at: number }>()

  constructor(call: Call) {
    this.#call = call
  }

  /**
   * Awake sandboxes first, then the most recently used. Only the first `limit` rows have values that are slow to
   * read.
   */
  async rows(limit = Number.POSITIVE_INFINITY): Promise<Row[]> {
    const { client, signal } = this.#call
    const infos = await client.listSandboxes({ signal }).all()
    infos.sort((a, b) => rank(b) - rank(a) || b.lastActiveAt.localeCompare(a.lastActiveAt))
    const limiter = new Limiter({ concurrency: REQUESTS_AT_ONCE })
    const rows = await Promise.all(
      infos.map((info, index) =>
        limiter.run(() => this.#row(new Sandbox(client, info), { isShown: index < limit })),
      ),
    )
    return rows.filter((row) => row !== undefined)
  }

  async #row(sandbox: Sandbox, { isShown }: { isShown: boolean }): Promise<Row | undefined> {
    const { signal } = this.#call
    const { info, id } = sandbox
    try {
      const [metrics, lastWake] = await Promise.all([
        rank(info) === 0 ? undefined : sandbox.metrics({ memory: isShown, signal }),
        isShown ? this.#lastWake(sandbox) : undefined,
      ])
      const { usage, memory } = metrics ?? {}
      return { info, usage, memory, cpuPercent: this.#cpuPercent(id, usage), lastWake }
    } catch (error) {
      // Deleted since it was listed.
      if (error instanceof Error && 'code' in error && error.code === 'not_found') return undefined
      throw error
    }
  }

  async #lastWake(sandbox: Sandbox): Promise<Wake | undefined> {
    const known = this.#wakes.get(sandbox.id) ?? { seq: -1, wake: undefined }
    for await (const entry of sandbox.ledger({ after: known.seq, signal: this.#call.signal })) {
      known.seq = entry.seq
      if (entry.event === 'woke') known.wake = entry
    }
    this.#wakes.set(sandbox.id, known)
    return known.wake
  }

  #cpuPercent(id: string, usage: Usage | undefined): number | undefined {
    const before = this.#cpu.get(id)
    const at = performance.now()
    if (usage === undefined) this.#cpu.delete(id)
    else this.#cpu.set(id, { cpuMs: usage.cpuMs, at })
    if (usage === undefined || before === undefined || usage.cpuMs < before.cpuMs) return undefined
    return (100 * (usage.cpuMs - before.cpuMs)) / (at - before.at)
  }
}

function rank({ state, tier }: SandboxInfo): number {
  if (state === 'standby') return tier === 'frozen' ? 1 : 0
  return 2
}

function formatRows(rows: readonly Row[], limit = rows.length): string {
  const count = (state: string) => rows.filter(({ info }) => stateText(info) === state).length
  const memory = rows.reduce((sum, { usage }) => sum + (usage?.memoryBytes ?? 0), 0)
  const now = Date.now()
  const head = `${rows.length} sandboxes: ${count('running')} running, ${count('standby (frozen)')} frozen, ${count('standby (stored)')} stored; ${formatBytes(memory)} in memory\n`
  const table = formatTable([
    ['NAME', 'STATE', 'MEMORY', 'PRIVATE', 'SHARED', 'CPU', 'PIDS', 'LAST WAKE', 'TOOK', 'CAUSE'],
    ...rows
      .slice(0, limit)
      .map(({ info, usage, memory, cpuPercent, lastWake }) => [
        shortName(info),
        stateText(info),
        usage === undefined ? '-' : formatBytes(usage.memoryBytes),
        memory === undefined ? '-' : formatBytes(memory.privateBytes),
        memory === undefined ? '-' : formatBytes(memory.sharedBytes),
        cpuPercent === undefined ? '-' : `${cpuPercent.toFixed(0)} %`,
        usage === undefined ? '-' : String(usage.pids),
        lastWake === undefined ? '-' : `${formatDistance(Date.parse(lastWake.at), now)} ago`,
        lastWake?.latencyMs === undefined ? '-' : formatMs(lastWake.latencyMs),
        lastWake?.cause ?? '',
      ]),
  ])
  const hidden = rows.length - limit
  return `${head}\n${table}${hidden > 0 ? `… and ${hidden} more\n` : ''}`
}
