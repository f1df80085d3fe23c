import type { Dormouse } from 'dormouse'
import { formatTable } from '../../format/table.ts'
import type { Call } from '../call.ts'

interface UsageFlags {
  readonly from?: string
  readonly to?: string
  readonly all?: boolean
}

type Used = Awaited<ReturnType<Dormouse['usage']>>
type SandboxUsage = Used['sandboxes'][number]

export async function usage(
  call: Call,
  ref: string | undefined,
  { from, to, all }: UsageFlags,
): Promise<void> {
  const { client, signal } = call
  const sandboxId = ref === undefined ? undefined : (await call.sandbox(ref)).id
  const used = await client.usage({ from: iso(from), to: iso(to), sandboxId, signal })
  const { currency } = used
  const head = [
    'SANDBOX',
    'RUNNING',
    'CPU',
    'MEMORY',
    'STORED',
    'WAKES',
    'FORKS',
    'TOKENS SAVED',
    currency,
    'ALWAYS ON',
  ]
  const row = (name: string, numbers: typeof used.total) => [
    name,
    `${numbers.runningSeconds.toFixed(1)} s`,
    `${numbers.cpuSeconds.toFixed(1)} s`,
    `${numbers.memoryGbSeconds.toFixed(1)} GB·s`,
    `${numbers.storedGbHours.toFixed(3)} GB·h`,
    String(numbers.wakes),
    String(numbers.forks),
    numbers.savedTokens.toLocaleString('en'),
    numbers.cost.toFixed(4),
    numbers.alwaysOnCost.toFixed(4),
  ]
  const sorted = [...used.sandboxes].sort((a, b) => b.runningSeconds - a.runningSeconds)
  // There may be many deleted ones; a sandbox that was asked for has its own line.
  const isSummedUp = ({ deleted }: SandboxUsage) => deleted && sandboxId === undefined && all !== true
  const deleted = sorted.filter(isSummedUp)
  const rows = sorted
    .filter((one) => !isSummedUp(one))
    .map((one) => row(`${one.name ?? one.sandboxId}${one.deleted ? ' (deleted)' : ''}`, one))
  if (deleted.length > 0) rows.push(row(`${deleted.length} deleted`, sumOf(deleted)))
  call.printResult(used, formatTable([head, ...rows, row('total', used.total)]))
  call.note(`From ${used.from} to ${used.to}. Costs use the prices in the settings of the server.`)
}

function sumOf(parts: readonly Used['total'][]): Used['total'] {
  const sum = (name: keyof Used['total']) => parts.reduce((total, part) => total + part[name], 0)
  return {
    runningSeconds: sum('runningSeconds'),
    cpuSeconds: sum('cpuSeconds'),
    memoryGbSeconds: sum('memoryGbSeconds'),
    storedGbHours: sum('storedGbHours'),
    wakes: sum('wakes'),
    forks: sum('forks'),
    savedTokens: sum('savedTokens'),
    cost: sum('cost'),
    alwaysOnCost: sum('alwaysOnCost'),
  }
}

/** Makes a timestamp of a day. */
function iso(text: string | undefined): string | undefined {
  return text !== undefined && /^\d{4}-\d{2}-\d{2}$/.test(text) ? `${text}T00:00:00Z` : text
}
