import type { HostRecord } from './host-record.ts'

export interface Candidate {
  readonly record: HostRecord
  /** Why the host cannot take the sandbox; undefined when it can. */
  readonly problem: string | undefined
}

export interface PlacementRequest {
  readonly memoryBytes: number
  /** The host that is asked. It is chosen unless another one has clearly more room. */
  readonly preferred: string
  /** The host has much of what the sandbox needs. */
  readonly isNear?: (record: HostRecord) => boolean
  /** What the host would have to fetch, as far as that is known. */
  readonly arrivingBytes?: (record: HostRecord) => number
  /** Undefined when the host can restore the snapshot, or when there is none. */
  readonly problemOf: (record: HostRecord) => string | undefined
}

/** A host is worth a hop when it has this many times as much free memory. */
const CLEARLY_MORE = 4
/** Free memory below which a host is full, as a part of all. */
const FULL = 0.05

/** The host for a sandbox, and why the others cannot take it. `hosts` are those that are alive. */
export function chooseHost(
  hosts: readonly HostRecord[],
  request: PlacementRequest,
): { chosen: HostRecord | undefined; candidates: readonly Candidate[] } {
  const candidates = hosts.map((record) => ({ record, problem: problemOf(record, request) }))
  const fit = candidates.flatMap(({ record, problem }) => (problem === undefined ? [record] : []))
  const best = roomiest(fit)
  const isFine = (host: HostRecord | undefined) =>
    host !== undefined && best !== undefined && freeBytes(host) * CLEARLY_MORE >= freeBytes(best)
  const preferred = fit.find(({ id }) => id === request.preferred)
  const near = fit.filter((host) => request.isNear?.(host) === true)
  const nearest = preferred !== undefined && near.includes(preferred) ? preferred : roomiest(near)
  const chosen = [nearest, preferred].find(isFine) ?? best
  return { chosen, candidates }
}

/** Why a host has no room for something new on its disk, in the words of its own refusal; undefined when it has. */
export function diskProblemOf(
  { room: { diskFreeBytes }, minFreeDiskBytes = 0 }: HostRecord,
  arrivingBytes = 0,
): string | undefined {
  if (diskFreeBytes < minFreeDiskBytes) return 'it has too little free disk'
  return diskFreeBytes - arrivingBytes < minFreeDiskBytes
    ? 'it has too little free disk for the snapshot'
    : undefined
}

function roomiest(hosts: readonly HostRecord[]): HostRecord | undefined {
  return hosts.reduce<HostRecord | undefined>(
    (most, host) => (most === undefined || freeBytes(host) > freeBytes(most) ? host : most),
    undefined,
  )
}

function problemOf(
  record: HostRecord,
  { memoryBytes, arrivingBytes, problemOf: problemOfSnapshot }: PlacementRequest,
): string | undefined {
  if (record.isCordoned) return 'it is cordoned'
  const { memoryFreeBytes, memoryTotalBytes } = record.room
  if (memoryTotalBytes < memoryBytes) return 'it has less memory than the sandbox may use'
  if (memoryFreeBytes < memoryTotalBytes * FULL) return 'it has no free memory'
  return problemOfSnapshot(record) ?? diskProblemOf(record, arrivingBytes?.(record))
}

function freeBytes({ room }: HostRecord): number {
  return room.memoryFreeBytes
}
