const BYTE_UNITS: readonly (readonly [number, string])[] = [
  [1e12, 'TB'],
  [1e9, 'GB'],
  [1e6, 'MB'],
  [1e3, 'kB'],
]

/** 512 B, 4.2 kB, 310 MB. */
export function formatBytes(bytes: number): string {
  const [size, unit] = BYTE_UNITS.find(([least]) => bytes >= least) ?? [1, 'B']
  return `${threeDigits(bytes / size)} ${unit}`
}

/** 0.8 ms, 24.8 ms, 1.35 s, 4 min 5 s. */
export function formatMs(ms: number): string {
  if (ms < 1000) return `${ms < 100 ? ms.toFixed(1) : Math.round(ms)} ms`
  const seconds = ms / 1000
  if (seconds < 60) return `${threeDigits(seconds)} s`
  const whole = Math.round(seconds)
  return `${Math.floor(whole / 60)} min ${whole % 60} s`
}

/** The time between two timestamps: 3 s, 12 min, 5 h, 9 d. */
export function formatDistance(from: number, to: number): string {
  const seconds = Math.max(0, Math.round((to - from) / 1000))
  if (seconds < 120) return `${seconds} s`
  if (seconds < 7_200) return `${Math.floor(seconds / 60)} min`
  if (seconds < 172_800) return `${Math.floor(seconds / 3_600)} h`
  return `${Math.floor(seconds / 86_400)} d`
}

/** 2026-01-31T12:00:05Z. */
export function formatTime(time: string | number): string {
  return new Date(time).toISOString().replace(/\.\d+Z$/, 'Z')
}

/** A setting as it is typed: 500ms, 15s, 5m, 2h, 7d. */
export function formatDuration(ms: number): string {
  const [size, unit] = DURATION_UNITS.find(([size]) => ms >= size && ms % size === 0) ?? [1, 'ms']
  return `${ms / size}${unit}`
}

const DURATION_UNITS: readonly (readonly [number, string])[] = [
  [86_400_000, 'd'],
  [3_600_000, 'h'],
  [60_000, 'm'],
  [1000, 's'],
]

function threeDigits(value: number): string {
  return String(Number(value.toPrecision(value >= 100 ? Math.ceil(Math.log10(value + 1)) : 3)))
}

const DURATION_MS: Readonly<Record<string, number>> = {
  ms: 1,
  s: 1000,
  m: 60_000,
  min: 60_000,
  h: 3_600_000,
  d: 86_400_000,
}

/** 500ms, 15s, 5m, 2h, 7d, or 0. */
export function parseDurationMs(text: string): number | undefined {
  if (text === '0') return 0
  const { amount, unit } = /^(?<amount>\d+(\.\d+)?) ?(?<unit>[a-z]+)$/i.exec(text)?.groups ?? {}
  const factor = DURATION_MS[unit?.toLowerCase() ?? '']
  return amount === undefined || factor === undefined ? undefined : Math.round(Number(amount) * factor)
}

const SIZE_BYTES: Readonly<Record<string, number>> = {
  '': 1,
  b: 1,
  kb: 1e3,
  mb: 1e6,
  gb: 1e9,
  tb: 1e12,
  kib: 1024,
  mib: 1024 ** 2,
  gib: 1024 ** 3,
  tib: 1024 ** 4,
  // A single letter is binary, as in Docker and in the flags of Java.
  k: 1024,
  m: 1024 ** 2,
  g: 1024 ** 3,
  t: 1024 ** 4,
}

/** 500MB, 4GiB, 4g (the same as 4GiB), or bytes. */
export function parseBytes(text: string): number | undefined {
  const { amount, unit } = /^(?<amount>\d+(\.\d+)?) ?(?<unit>[a-z]*)$/i.exec(text)?.groups ?? {}
  const factor = SIZE_BYTES[unit?.toLowerCase() ?? 'none']
  return amount === undefined || factor === undefined ? undefined : Math.round(Number(amount) * factor)
}

/** An ISO 8601 time, a day (its start in UTC), or a duration before `now`. Returns milliseconds since 1970. */
export function parseTime(text: string, now: number): number | undefined {
  const before = parseDurationMs(text)
  if (before !== undefined) return now - before
  const time = /^\d{4}-\d{2}-\d{2}(T\d|$)/.test(text) ? Date.parse(text) : Number.NaN
  return Number.isNaN(time) ? undefined : time
}

export function parseNumber(text: string): number | undefined {
  return /^\d+(\.\d+)?$/.test(text) ? Number(text) : undefined
}
