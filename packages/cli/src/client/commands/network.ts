import type { NetworkMode, NetworkReport } from 'dormouse'
import { formatBytes, formatDistance } from '../../format/amounts.ts'
import { formatFields, formatTable } from '../../format/table.ts'
import type { Call } from '../call.ts'
import { networkOptions } from '../network-flags.ts'

export interface ChangeNetworkFlags {
  readonly mode?: NetworkMode
  readonly allow?: readonly string[]
  readonly deny?: readonly string[]
}

/** Shows the network of a sandbox, after changing its policy if flags ask for it. */
export async function network(
  call: Call,
  ref: string,
  { mode, allow, deny }: ChangeNetworkFlags,
): Promise<void> {
  const { signal } = call
  const sandbox = await call.sandbox(ref)
  const wanted = networkOptions({
    ...(mode && { network: mode }),
    ...(allow && { allow }),
    ...(deny && { deny }),
  })
  if (wanted !== undefined) await sandbox.update({ network: wanted, signal })
  const report = await sandbox.network({ signal })
  call.printResult(report, describe(report))
}

function describe({
  mode,
  allow,
  deny,
  unavailable,
  counters,
  denied,
  failedLookups = [],
}: NetworkReport): string {
  const { connections, names, bytesOut, bytesIn } = counters
  const fields = formatFields([
    ['network', mode],
    ['allowed', mode === 'allow' ? allow.join(' ') || 'nothing' : undefined],
    ['closed', deny?.join(' ')],
    ['unavailable', unavailable],
    ['connections', String(connections)],
    ['name look-ups', String(names)],
    ['sent', formatBytes(bytesOut)],
    ['received', formatBytes(bytesIn)],
    ['denied', String(counters.denied)],
  ])
  const now = Date.now()
  return [
    fields,
    ...(denied.length === 0 ? [] : [describeDenials(denied, now)]),
    ...(failedLookups.length === 0 ? [] : [describeFailedLookups(failedLookups, now)]),
  ].join('\n')
}

function describeDenials(denied: NetworkReport['denied'], now: number): string {
  return formatTable([
    ['WHEN', 'WHAT', 'PORT', 'TIMES', 'WHY'],
    ...denied.map(({ at, name, address, port, count, reason }) => [
      `${formatDistance(Date.parse(at), now)} ago`,
      name ?? address ?? '-',
      port === undefined ? '-' : String(port),
      String(count),
      reason,
    ]),
  ])
}

function describeFailedLookups(failed: NetworkReport['failedLookups'], now: number): string {
  return formatTable([
    ['WHEN', 'NOT RESOLVED', 'WHY'],
    ...failed.map(({ at, name, reason }) => [`${formatDistance(Date.parse(at), now)} ago`, name, reason]),
  ])
}
