import type { Burrow } from '@dormouse/engine'
import type { Log } from '../log.ts'
import type { SandboxRow } from '../store/sandbox-rows.ts'
import { installSecrets, TRUST_ENV } from './install-secrets.ts'
import type { SecretService } from './secret-service.ts'

export interface SandboxSecretsOptions {
  readonly service: Pick<SecretService, 'placeholdersOf' | 'require'>
  /** The certificate of the edge, PEM. */
  readonly certificate: string
  readonly log: Log
}

/** Whose `row` is always the current one. */
interface Tenant {
  readonly row: SandboxRow
}

interface Prepared {
  /**
   * The list object of the row. Every change creates a new list, even when the names stay the same but the secrets
   * differ.
   */
  readonly secrets: SandboxRow['secrets']
  /** Undefined when done. */
  work: Promise<void> | undefined
}

/** Installs secrets in burrows and checks who may have them. */
export class SandboxSecrets {
  readonly #options: SandboxSecretsOptions
  readonly #prepared = new WeakMap<Tenant, Prepared>()

  constructor(options: SandboxSecretsOptions) {
    this.#options = options
  }

  /** Throws when a sandbox cannot have these secrets. */
  require(names: readonly string[], row: Pick<SandboxRow, 'owner' | 'env'>): void {
    this.#options.service.require(names, row)
  }

  /** The environment of a new sandbox. Variables of its creator win. */
  envOf(row: SandboxRow): Readonly<Record<string, string>> {
    if (row.secrets.length === 0) return row.env
    return { ...TRUST_ENV, ...this.#options.service.placeholdersOf(row), ...row.env }
  }

  /** The sandbox got another burrow, which may lack what the last one had. */
  forget(tenant: Tenant): void {
    this.#prepared.delete(tenant)
  }

  /**
   * Installs the secrets of a sandbox in its burrow; undefined when that is done. Called before every call into the
   * sandbox, so that a secret that was just added is there. Never rejects: a sandbox whose disk is full must still be
   * able to run the code that frees space.
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

  /** In order: the variables of the latest list must be set last. */
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
      log.warn({ sandboxId: row.id, err: error }, 'the secrets of a sandbox could not be installed')
      return false
    }
  }
}
