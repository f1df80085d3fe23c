/** The first version that checks a revision against what is on its way, too (nats-server issue 4320). */
const CHECKS_PROPOSED = [2, 9, 21]

/**
 * Why these NATS servers should be replaced by newer ones; undefined when they need not. A single server agrees with
 * no other.
 */
export function adviseOnNats(version: string, replicas: number): string | undefined {
  if (replicas < 2 || !isBefore(version, CHECKS_PROPOSED)) return undefined
  return `nats-server ${version} may acknowledge two changes of one record at once; use ${CHECKS_PROPOSED.join('.')} or newer (docs/decisions/0171-an-acknowledged-change-may-be-replaced.md)`
}

function isBefore(version: string, other: readonly number[]): boolean {
  const parts = /^v?(\d+)\.(\d+)\.(\d+)/.exec(version)?.slice(1).map(Number)
  if (parts === undefined) return false
  const different = parts.findIndex((part, index) => part !== other[index])
  return different !== -1 && (parts[different] ?? 0) < (other[different] ?? 0)
}
