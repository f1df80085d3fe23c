/** Numbers and times in words, as short as they can be read at a glance. */

const UNITS = ['B', 'kB', 'MB', 'GB', 'TB']

export function bytes(value: number | undefined): string {
  if (value === undefined) return '–'
  let unit = 0
  let rest = value
  while (rest >= 1000 && unit < UNITS.length - 1) {
    rest /= 1000
    unit += 1
  }
  return `${rest >= 100 || unit === 0 ? Math.round(rest) : rest.toFixed(1)} ${UNITS[unit]}`
}

export function duration(ms: number | undefined): string {
  if (ms === undefined) return '–'
  if (ms < 10) return `${ms.toFixed(1)} ms`
  if (ms < 1000) return `${Math.round(ms)} ms`
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`
  if (ms < 3_600_000) return `${Math.round(ms / 60_000)} min`
  if (ms < 172_800_000) return `${Math.round(ms / 3_600_000)} h`
  return `${Math.round(ms / 86_400_000)} d`
}

export function ago(iso: string | undefined, nowMs: number = Date.now()): string {
  if (iso === undefined) return '–'
  const ms = Math.max(0, nowMs - Date.parse(iso))
  if (ms < 5000) return 'now'
  return ms < 60_000 ? `${Math.round(ms / 1000)} s ago` : `${duration(ms)} ago`
}

export function clock(iso: string): string {
  return new Date(iso).toLocaleString(undefined, {
    month: 'short',
    day: 'numeric',
    hour: '2-digit',
    minute: '2-digit',
    second: '2-digit',
  })
}

export function money(value: number, currency: string): string {
  const digits = value !== 0 && value < 1 ? 4 : 2
  return new Intl.NumberFormat(undefined, {
    style: 'currency',
    currency,
    minimumFractionDigits: 2,
    maximumFractionDigits: digits,
  }).format(value)
}

export function count(value: number): string {
  return value.toLocaleString()
}
