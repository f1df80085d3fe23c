import {
  DEFAULT_CPUS,
  DEFAULT_DISK_BYTES,
  DEFAULT_FILES,
  DEFAULT_MEMORY_BYTES,
  DEFAULT_PIDS,
  DormouseError,
} from '@dormouse/contracts'
import type { SandboxLimits } from '../store/sandbox-rows.ts'
import { showBytes } from './quotas.ts'

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

/** The ceilings of this server and its keys. */
export class Ceilings {
  readonly #server: SandboxLimits
  readonly #ofKey: (keyId: string) => KeyCeilings

  constructor(server: SandboxLimits, ofKey: (keyId: string) => KeyCeilings) {
    this.#server = server
    this.#ofKey = ofKey
  }

  /** Throws `limit_reached` when the request exceeds the ceilings of this key. */
  check(keyId: string, wanted: Partial<SandboxLimits>): void {
    checkCeilings(wanted, { server: this.#server, key: this.#ofKey(keyId) })
  }

  /** Default limits of a sandbox of this key. */
  defaultLimits(keyId: string): SandboxLimits {
    return limitsWithin(DEFAULTS, { server: this.#server, key: this.#ofKey(keyId) })
  }

  /** Default size limit of a volume of this key. */
  volumeBytes(keyId: string, defaultBytes: number): number {
    return Math.min(defaultBytes, lower(this.#server.diskBytes, this.#ofKey(keyId).sandboxDiskBytes))
  }
}

const DEFAULTS: SandboxLimits = {
  memoryBytes: DEFAULT_MEMORY_BYTES,
  cpus: DEFAULT_CPUS,
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

function lower(ofServer: number, ofKey: number | undefined): number {
  return Math.min(ofServer, ofKey ?? Number.POSITIVE_INFINITY)
}
