import { randomBytes } from 'node:crypto'

declare const brand: unique symbol
type Id<Name extends string> = string & { readonly [brand]: Name }

export type SandboxId = Id<'sandbox'>
export type BurrowId = Id<'burrow'>
export type RunId = Id<'run'>
export type SnapshotId = Id<'snapshot'>
export type LayerId = Id<'layer'>
export type VolumeId = Id<'volume'>
export type JobId = Id<'job'>
export type ServiceId = Id<'service'>

// Lower-case letters and digits without 0/o and 1/l: hard to misread, and safe in DNS labels (previews use ids as
// host names).
const ALPHABET = '23456789abcdefghijkmnpqrstuvwxyz'
const RANDOM_CHARACTERS = 16

export const newSandboxId = (): SandboxId => newId('sb') as SandboxId
export const newBurrowId = (): BurrowId => newId('bw') as BurrowId
export const newSnapshotId = (): SnapshotId => newId('sn') as SnapshotId
export const newLayerId = (): LayerId => newId('ly') as LayerId
export const newVolumeId = (): VolumeId => newId('vol') as VolumeId
export const newRunId = (): RunId => newId('run') as RunId
export const newJobId = (): JobId => newId('job') as JobId
export const newServiceId = (): ServiceId => newId('sv') as ServiceId

const ID_PATTERN = /^(?<kind>sb|bw|sn|ly|vol|run|sv)-[2-9a-km-np-z]{16}$/
const PROCESS_ID_PATTERN = /^pr-[2-9a-km-np-z]{16}$/

export function isSandboxId(value: string): value is SandboxId {
  return ID_PATTERN.exec(value)?.groups?.kind === 'sb'
}

export function isBurrowId(value: string): value is BurrowId {
  return ID_PATTERN.exec(value)?.groups?.kind === 'bw'
}

export function isSnapshotId(value: string): value is SnapshotId {
  return ID_PATTERN.exec(value)?.groups?.kind === 'sn'
}

export function isLayerId(value: string): value is LayerId {
  return ID_PATTERN.exec(value)?.groups?.kind === 'ly'
}

export function isVolumeId(value: string): value is VolumeId {
  return ID_PATTERN.exec(value)?.groups?.kind === 'vol'
}

export function isServiceId(value: string): value is ServiceId {
  return ID_PATTERN.exec(value)?.groups?.kind === 'sv'
}

/** The agent makes the ids of processes. */
export function isProcessId(value: string): boolean {
  return PROCESS_ID_PATTERN.test(value)
}

function newId(kind: 'sb' | 'bw' | 'sn' | 'ly' | 'vol' | 'run' | 'sv' | 'job'): string {
  let id = `${kind}-`
  // The alphabet has 32 characters, so five bits of each byte pick one without bias.
  for (const byte of randomBytes(RANDOM_CHARACTERS)) id += ALPHABET[byte & 31]
  return id
}
