import type { Burrow } from '@dormouse/engine'
import type { Log } from '../log.ts'
import type { SandboxRow } from '../store/sandbox-rows.ts'
import { installSecrets, TRUST_ENV } from './install-secrets.ts'
import type { SecretService } from './secret-service.ts'

export interface SandboxSecretsOptions {
  readonly service: Pick<SecretService, 'placeholdersOf' | 'require'>
  /** Of the edge, PEM. */
  readonly certificate: string
  readonly log: Log
}

/** A row as it is whenever it is looked at. */
interface Tenant {
  readonly row: SandboxRow
}

interface Prepared {
  /** The very list of the row: whoever gives it secrets makes a new one, also when the names in it are the same, and other secrets. */
  readonly secrets: SandboxRow['secrets']
  /** Undefined: it is done. */
  work: Promise<void> | undefined
}

/** What the lifecycle of sandboxes has to do with secrets. */
export class SandboxSecrets {
  readonly #options: SandboxSecretsOptions
  readonly #prepared = new WeakMap<Tenant, Prepared>()

  constructor(options: SandboxSecretsOptions) {
    this.#options = options
  }

  /** Throws when a sandbox cannot have these. */
  require(names: readonly string[], row: Pick<SandboxRow, 'owner' | 'env'>): void {
    this.#options.service.require(names, row)
  }

  /** The environment that a sandbox starts with. What its maker said wins. */
  envOf(row: SandboxRow): Readonly<Record<string, string>> {
    if (row.secrets.length === 0) return row.env
    return { ...TRUST_ENV, ...this.#options.service.placeholdersOf(row), ...row.env }
  }

  /** What it lives in now may know less than what it lived in before. */
  forget(tenant: Tenant): void {
    this.#prepared.delete(tenant)
  }

  /**
   * Until a live burrow has what its secrets need; undefined when it has. Asked before every call into a sandbox, so that a secret which it was
   * given a moment ago, or asleep, is there. Never rejects: a sandbox whose disk is full must be able to run what frees it.
   */
  prepare(tenant: Tenant, burrow: Burrow): Promise<void> | undefined {
    const { row } = tenant
    if (row.secrets.length === 0) return undefined
    const known = this.#prepared.get(tenant)
    if (known?.secrets === row.secrets) return known.work
    const prepared: Prepared = { secrets: row.secrets, work: undefined }
    this.#prepared.set(tenant, prepared)
    prepared.work = this.#prepareAfter(known?.work, row, burrow).then((isDone) => {
      prepared.work = undefined
      // The next call tries again.
      if (!isDone && this.#prepared.get(tenant) === prepared) this.#prepared.delete(tenant)
    })
    return prepared.work
  }

  /** One after the other: the variables of the list that came last must be the last that are set. */
  async #prepareAfter(before: Promise<void> | undefined, row: SandboxRow, burrow: Burrow): Promise<boolean> {
    if (before !== undefined) await before
    return this.#prepare(row, burrow)
  }

  async #prepare(row: SandboxRow, burrow: Burrow): Promise<boolean> {
    const { certificate, log } = this.#options
    const { env: own } = row
    const env = Object.entries(this.envOf(row)).filter(([name]) => !Object.hasOwn(own, name))
    try {
      await installSecrets({ burrow, certificate, env: Object.fromEntries(env) })
      return true
    } catch (error) {
      log.warn({ sandboxId: row.id, err: error }, 'a sandbox could not be prepared for its secrets')
      return false
    }
  }
}
