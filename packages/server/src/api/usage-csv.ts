import type { UsageAnswer } from '@dormouse/contracts/http'
import type { UsageNumbers } from '../usage/usage.ts'

const NUMBERS: readonly (keyof UsageNumbers)[] = [
  'runningSeconds',
  'cpuSeconds',
  'memoryGbSeconds',
  'storedGbHours',
  'wakes',
  'forks',
  'savedTokens',
  'cost',
  'alwaysOnCost',
]

/** RFC 4180: one line per sandbox, then `total`. */
export function usageCsv({ from, to, currency, total, sandboxes }: UsageAnswer): string {
  const period = [from, to, currency]
  const lines = [
    ['sandboxId', 'name', 'deleted', 'from', 'to', 'currency', ...NUMBERS],
    ...sandboxes.map((row) => [
      row.sandboxId,
      row.name ?? '',
      row.deleted,
      ...period,
      ...NUMBERS.map((name) => row[name]),
    ]),
    ['total', '', '', ...period, ...NUMBERS.map((name) => total[name])],
  ]
  return lines.map((cells) => `${cells.map(cell).join(',')}\r\n`).join('')
}

function cell(value: string | number | boolean): string {
  const text = String(value)
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}
