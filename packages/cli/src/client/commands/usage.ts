import { formatTable } from '../../format/table.ts'
import type { Call } from '../call.ts'

interface UsageFlags {
  readonly from?: string
  readonly to?: string
}

export async function usage(call: Call, ref: string | undefined, { from, to }: UsageFlags): Promise<void> {
  const { client, signal } = call
  const sandboxId = ref === undefined ? undefined : (await call.sandbox(ref)).id
  const used = await client.usage({ from: iso(from), to: iso(to), sandboxId, signal })
  const { currency } = used
  const head = ['SANDBOX', 'RUNNING', 'CPU', 'MEMORY', 'STORED', 'WAKES', 'FORKS', currency, 'ALWAYS ON']
  const row = (name: string, numbers: typeof used.total) => [
    name,
    `${numbers.runningSeconds.toFixed(1)} s`,
    `${numbers.cpuSeconds.toFixed(1)} s`,
    `${numbers.memoryGbSeconds.toFixed(1)} GB·s`,
    `${numbers.storedGbHours.toFixed(3)} GB·h`,
    String(numbers.wakes),
    String(numbers.forks),
    numbers.cost.toFixed(4),
    numbers.alwaysOnCost.toFixed(4),
  ]
  // Existing sandboxes first, then by use: there may be many deleted ones.
  const sorted = [...used.sandboxes].sort(
    (a, b) => Number(a.deleted) - Number(b.deleted) || b.runningSeconds - a.runningSeconds,
  )
  const rows = sorted.map(({ sandboxId: id, name, deleted, ...numbers }) =>
    row(`${name ?? id}${deleted ? ' (deleted)' : ''}`, numbers),
  )
  call.printResult(used, formatTable([head, ...rows, row('total', used.total)]))
  call.note(`From ${used.from} to ${used.to}. Costs use the prices in the settings of the server.`)
}

/** Makes a timestamp of a day. */
function iso(text: string | undefined): string | undefined {
  return text !== undefined && /^\d{4}-\d{2}-\d{2}$/.test(text) ? `${text}T00:00:00Z` : text
}
