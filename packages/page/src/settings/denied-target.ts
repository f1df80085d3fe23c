import type { NetworkReport } from 'dormouse'

/** What to allow so that a refused connection is not refused again. */
export function deniedTarget({ name, address, port }: NetworkReport['denied'][number]): string {
  const host = name ?? (address?.includes(':') ? `[${address}]` : address) ?? 'unknown'
  return port === undefined ? host : `${host}:${port}`
}
