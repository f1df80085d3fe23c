import { z } from 'zod'
import type { ClusterKey } from './cluster-key.ts'

/** What a host says of itself with every renewal of its lease. A newer version may say more. */
const hostRecordSchema = z.object({
  id: z.string(),
  /** Where the other hosts reach its API. Empty until it listens. */
  address: z.union([z.literal(''), z.url({ protocol: /^https?$/ })]),
  /** Its SSH server, at the same machine as `address`. Absent when SSH is off. */
  ssh: z.object({ port: z.int(), fingerprint: z.string() }).optional(),
  version: z.string(),
  startedAt: z.iso.datetime(),
  /** Same boot and same data directory: the process that held the lease before has ended. */
  instance: z.string(),
  /** Counts the leases of this host. A new lease owns nothing until the host has claimed it again. */
  epoch: z.int().positive(),
  /** Counts the renewals. */
  renewals: z.int().nonnegative(),
  /** Another host has ended this lease. */
  fencedBy: z.string().optional(),
  /** The host has left by itself, and runs nothing. */
  hasLeft: z.boolean(),
  isCordoned: z.boolean(),
  /** How far it is with moving its sandboxes to other hosts. */
  drain: z
    .object({
      ...{ total: z.int(), moved: z.int(), left: z.int() },
      /** The first of those that cannot move, and why. */
      stays: z.array(z.object({ sandboxId: z.string(), reason: z.string() })).optional(),
    })
    .optional(),
  arch: z.string(),
  kernel: z.string(),
  /** An earlier version does not say. */
  cpu: z.object({ model: z.string(), fingerprint: z.string() }).optional(),
  /** Ids of sandboxes and snapshots that it has, or has fetched lately: what they share need not be fetched again. */
  holds: z.array(z.string()).optional(),
  /** What decides which snapshots it can restore, in the words of its engine. */
  abilities: z.unknown(),
  /** The same for sandboxes with another isolation than `process`. An earlier version does not say. */
  isolations: z.record(z.string(), z.unknown()).optional(),
  /** Forms of snapshots on its disk that its engine can restore. An earlier version does not say. */
  forms: z.array(z.string()).optional(),
  /** It fetches the bases of snapshots from the depot. An earlier version does not. */
  fetchesBases: z.boolean().optional(),
  room: z.strictObject({
    memoryTotalBytes: z.number(),
    memoryFreeBytes: z.number(),
    diskTotalBytes: z.number(),
    diskFreeBytes: z.number(),
    cpus: z.number(),
  }),
  /** The newest format of the shared state that it reads. An earlier version does not say: 1. */
  stateFormat: z.int().positive().optional(),
  /** With less free disk it makes nothing new. An earlier version does not say. */
  minFreeDiskBytes: z.number().nonnegative().optional(),
  load: z.strictObject({ running: z.int(), sandboxes: z.int(), cpu: z.number() }),
})

export type HostRecord = z.output<typeof hostRecordSchema>

/** What a host says of itself, without what its lease says. */
export type HostDescription = Omit<HostRecord, 'epoch' | 'renewals' | 'fencedBy' | 'hasLeft'>

const SIGNATURE = /,"signature":"([A-Za-z0-9_-]+)"\}$/

/** JSON whose last field signs the others. A version that does not know it ignores it. */
export function encodeHost(record: HostRecord, key: ClusterKey): string {
  const text = JSON.stringify(record)
  return `${text.slice(0, -1)},"signature":"${key.sign(signedText(text))}"}`
}

export interface DecodedHost {
  readonly record: HostRecord
  /** A host of the cluster has written it. Versions before signatures write none. */
  readonly isSigned: boolean
}

/** Undefined for a record that this version cannot read. */
export function decodeHost(value: Uint8Array, key: ClusterKey): DecodedHost | undefined {
  try {
    const text = Buffer.from(value).toString()
    const { 0: end = '', 1: signature = '' } = SIGNATURE.exec(text) ?? []
    const isSigned = end !== '' && key.isSigned(signedText(`${text.slice(0, -end.length)}}`), signature)
    return { record: hostRecordSchema.parse(JSON.parse(text)), isSigned }
  } catch {
    return undefined
  }
}

/** Whether nothing was written between the two: a record that was renewed counts more renewals. */
export function isSameRenewal(one: HostRecord | undefined, other: HostRecord): boolean {
  return (
    one?.epoch === other.epoch &&
    one.renewals === other.renewals &&
    one.fencedBy === other.fencedBy &&
    one.hasLeft === other.hasLeft
  )
}

/** What is signed for another purpose does not start like this. */
function signedText(record: string): string {
  return `host ${record}`
}
