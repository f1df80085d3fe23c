import {
  DEFAULT_DISK_BYTES,
  DEFAULT_FILES,
  DEFAULT_MEMORY_BYTES,
  DEFAULT_PIDS,
  DormouseError,
} from '@dormouse/contracts'
import type { SandboxLimits } from '../store/sandbox-rows.ts'
import { type KeyQuotas, showBytes } from './quotas.ts'

/** The highest limits of one sandbox of a key. Absent: what the server allows. */
export interface KeyCeilings {
  readonly sandboxMemoryBytes?: number | undefined
  readonly sandboxCpus?: number | undefined
  readonly sandboxPids?: number | undefined
  /** Also the highest size limit of one volume. */
  readonly sandboxDiskBytes?: number | undefined
  readonly sandboxFiles?: number | undefined
}

interface Ceiling {
  readonly ofKey: keyof KeyCeilings
  readonly what: string
  readonly flag: string
  readonly show: (amount: number) => string
}

const CEILINGS: Readonly<Record<keyof SandboxLimits, Ceiling>> = {
  memoryBytes: {
    ofKey: 'sandboxMemoryBytes',
    what: 'of memory',
    flag: '--max-sandbox-memory',
    show: showBytes,
  },
  cpus: { ofKey: 'sandboxCpus', what: 'CPUs', flag: '--max-sandbox-cpus', show: String },
  pids: { ofKey: 'sandboxPids', what: 'processes', flag: '--max-sandbox-pids', show: String },
  diskBytes: { ofKey: 'sandboxDiskBytes', what: 'on disk', flag: '--max-sandbox-disk', show: showBytes },
  files: { ofKey: 'sandboxFiles', what: 'files', flag: '--max-sandbox-files', show: String },
}
const NAMES = Object.keys(CEILINGS) as (keyof SandboxLimits)[]

/** By default, a key with a quota of memory can run this many sandboxes, if each still gets what one needs. */
const SANDBOXES_IN_QUOTA = 4

export interface CeilingsOptions {
  readonly server: SandboxLimits
  /** What sandboxes get that name no limit. */
  readonly defaults: Pick<SandboxLimits, 'memoryBytes' | 'cpus'>
  readonly ofKey: (keyId: string) => KeyQuotas
}

/** The ceilings of this server and its keys. */
export class Ceilings {
  readonly #server: SandboxLimits
  readonly #defaults: SandboxLimits
  readonly #ofKey: (keyId: string) => KeyQuotas

  constructor({ server, defaults, ofKey }: CeilingsOptions) {
    this.#server = server
    this.#defaults = { ...DEFAULTS, ...defaults }
    this.#ofKey = ofKey
  }

  /** Throws `limit_reached` when the request exceeds the ceilings of this key. */
  check(keyId: string, wanted: Partial<SandboxLimits>): void {
    checkCeilings(wanted, { server: this.#server, key: this.#ofKey(keyId) })
  }

  /** Default limits of a sandbox of this key. */
  defaultLimits(keyId: string): SandboxLimits {
    const key = this.#ofKey(keyId)
    const limits = limitsWithin(this.#defaults, { server: this.#server, key })
    return { ...limits, memoryBytes: Math.min(limits.memoryBytes, memoryWithin(key.memoryBytes)) }
  }

  /** Default size limit of a volume of this key. */
  volumeBytes(keyId: string, defaultBytes: number): number {
    return Math.min(defaultBytes, lower(this.#server.diskBytes, this.#ofKey(keyId).sandboxDiskBytes))
  }
}

const DEFAULTS: Pick<SandboxLimits, 'pids' | 'diskBytes' | 'files'> = {
  pids: DEFAULT_PIDS,
  diskBytes: DEFAULT_DISK_BYTES,
  files: DEFAULT_FILES,
}

/** Throws `limit_reached`, naming the ceiling, when the request exceeds what the server or the key allows. */
export function checkCeilings(
  wanted: Partial<SandboxLimits>,
  { server, key }: { readonly server: SandboxLimits; readonly key: KeyCeilings },
): void {
  for (const name of NAMES) {
    const amount = wanted[name]
    const { ofKey, what, flag, show } = CEILINGS[name]
    const limit = lower(server[name], key[ofKey])
    if (amount === undefined || amount <= limit) continue
    const isOfServer = limit === server[name]
    const [who, hint] = isOfServer
      ? ['This server', `Ask for less. An operator can raise \`ceilings.${name}\` in the configuration.`]
      : ['This key', `Ask for less, or raise it with an admin key: \`dormouse key update ID ${flag} N\`.`]
    throw new DormouseError(
      'limit_reached',
      `${who} allows ${show(limit)} ${what} at most, but the request asks for ${show(amount)}`,
      { hint, details: { ceiling: isOfServer ? name : ofKey, limit, wanted: amount } },
    )
  }
}

/** Default limits: the server's defaults, or the ceiling where that is lower. */
function limitsWithin(
  defaults: SandboxLimits,
  { server, key }: { readonly server: SandboxLimits; readonly key: KeyCeilings },
): SandboxLimits {
  const within = (name: keyof SandboxLimits) =>
    Math.min(defaults[name], lower(server[name], key[CEILINGS[name].ofKey]))
  return {
    memoryBytes: within('memoryBytes'),
    cpus: within('cpus'),
    pids: within('pids'),
    diskBytes: within('diskBytes'),
    files: within('files'),
  }
}

/** The sum of all limits must fit the quota, so a large default would use it up with one sandbox. */
function memoryWithin(quotaBytes: number | undefined): number {
  if (quotaBytes === undefined) return Number.POSITIVE_INFINITY
  return Math.min(quotaBytes, Math.max(DEFAULT_MEMORY_BYTES, Math.floor(quotaBytes / SANDBOXES_IN_QUOTA)))
}

function lower(ofServer: number, ofKey: number | undefined): number {
  return Math.min(ofServer, ofKey ?? Number.POSITIVE_INFINITY)
}
