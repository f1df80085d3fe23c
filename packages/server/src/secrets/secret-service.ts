import { randomBytes } from 'node:crypto'
import { DormouseError, type SandboxId, SECRET_MIN_BYTES } from '@dormouse/contracts'
import type { SecretAnswer } from '@dormouse/contracts/http'
import type { EdgeSecret } from '@dormouse/egress'
import type { Caller } from '../access/caller.ts'
import type { Log } from '../log.ts'
import type { Page } from '../store/page.ts'
import type { SandboxRow } from '../store/sandbox-rows.ts'
import type { SealedValues } from './sealed-values.ts'
import type { SecretRow, SecretRows } from './secret-rows.ts'
import type { Secrets } from './secrets.ts'

/** Stops programs in a loop. */
const SECRETS_PER_OWNER = 1000
/** Random enough that it cannot be guessed and does not occur in text by chance. */
const PLACEHOLDER_BYTES = 15

export interface SecretServiceOptions {
  readonly rows: SecretRows
  readonly values: SealedValues
  /** Sandboxes of this owner that have the secret, awake or asleep. */
  readonly usedBy: (owner: string, name: string) => readonly SandboxId[]
  /** Resolves when the edge uses the current secrets of this sandbox. */
  readonly apply: (id: SandboxId) => Promise<void>
  readonly takeFrom: (id: SandboxId, name: string) => Promise<void>
  readonly now: () => number
  readonly log: Log
}

type Owned = Pick<SandboxRow, 'owner' | 'secrets'>

/**
 * Secrets: values that the edge puts into requests. A secret belongs to the key that created it, and only its sandboxes
 * can use it.
 */
export class SecretService implements Secrets {
  readonly #options: SecretServiceOptions

  constructor(options: SecretServiceOptions) {
    this.#options = options
  }

  create(request: { name: string; value: string; domains: readonly string[] }, caller: Caller): SecretAnswer {
    const { rows, values, now } = this.#options
    if (rows.count(caller.keyId) >= SECRETS_PER_OWNER)
      throw new DormouseError('limit_reached', `A key may have ${SECRETS_PER_OWNER} secrets.`, {
        hint: 'Delete one that you no longer need.',
      })
    const id = randomBytes(PLACEHOLDER_BYTES).toString('hex')
    const at = now()
    const row: SecretRow = {
      ...{ id, owner: caller.keyId, name: request.name, domains: distinct(request.domains) },
      ...{ placeholder: newPlaceholder(), sealedValue: values.seal(request.value, id) },
      ...{ createdAt: at, updatedAt: at },
    }
    rows.add(row)
    return this.#view(row)
  }

  list(query: { limit: number; cursor?: string }, caller: Caller): Page<SecretAnswer> {
    const { items, nextCursor } = this.#options.rows.list(query, caller.isAdmin ? undefined : caller.keyId)
    return { items: items.map((row) => this.#view(row)), nextCursor }
  }

  get(name: string, caller: Caller): SecretAnswer {
    return this.#view(this.#find(name, caller))
  }

  async update(
    name: string,
    { value, domains }: { value?: string; domains?: readonly string[] },
    caller: Caller,
  ): Promise<SecretAnswer> {
    const { rows, values, usedBy, apply, now } = this.#options
    const old = this.#find(name, caller)
    const row: SecretRow = {
      ...old,
      ...(value !== undefined && { sealedValue: values.seal(value, old.id) }),
      ...(domains !== undefined && { domains: distinct(domains) }),
      updatedAt: now(),
    }
    rows.change(row)
    await Promise.all(usedBy(row.owner, row.name).map(apply))
    return this.#view(row)
  }

  /** Another host of the cluster has changed the secret: the edge uses the new value. */
  async refresh(owner: string, name: string): Promise<void> {
    const { usedBy, apply } = this.#options
    await Promise.all(usedBy(owner, name).map(apply))
  }

  async delete(name: string, { force }: { force: boolean }, caller: Caller): Promise<void> {
    const { rows, usedBy, takeFrom } = this.#options
    const row = this.#find(name, caller)
    if (force) await Promise.all(usedBy(row.owner, name).map((id) => takeFrom(id, name)))
    // Checked again: another sandbox may have got it in the meantime.
    const users = usedBy(row.owner, name)
    const [first, ...more] = users
    if (first !== undefined) {
      const others = more.length === 0 ? '' : ` and ${more.length} more`
      throw new DormouseError('in_use', `The secret "${name}" is used by ${first}${others}.`, {
        hint: 'Remove it from these sandboxes first, or delete it with `force=true`.',
        details: { usedBy: users.slice(0, 100) },
      })
    }
    rows.delete(row.id)
  }

  /**
   * Throws `not_found` for names without a secret of this owner, and `invalid_argument` for names that `env` also has.
   * Synchronous: the caller must record the use before anything else happens.
   */
  require(names: readonly string[], { owner, env }: Pick<SandboxRow, 'owner' | 'env'>): void {
    for (const name of names) {
      const row = this.#options.rows.find(owner, name)
      if (row === undefined) throw gone(name)
      const problem = problemOf(name, this.#options.values.find(row.sealedValue, row.id))
      if (problem !== undefined)
        throw new DormouseError('invalid_argument', `secrets: ${problem}`, {
          hint: `Give it another value: \`dormouse secret set ${name}\`, or PATCH /v1/secrets/${name}.`,
          details: { field: 'secrets' },
        })
      if (Object.hasOwn(env, name))
        throw new DormouseError('invalid_argument', `secrets: "${name}" is also a variable in env`, {
          hint: 'Rename one of them: both become environment variables.',
          details: { field: 'secrets' },
        })
    }
  }

  /** For the edge only. */
  secretsOf({ owner, secrets }: Owned): EdgeSecret[] {
    const { rows, values, log } = this.#options
    return secrets.flatMap((name) => {
      const row = rows.find(owner, name)
      if (row === undefined) return []
      const { placeholder, domains } = row
      const value = values.find(row.sealedValue, row.id)
      if (value === undefined)
        log.error(
          { owner, name },
          'a secret cannot be decrypted: secrets.key is not the key it was encrypted with',
        )
      const problem = problemOf(name, value)
      // The edge refuses requests with its placeholder and says why.
      return problem === undefined
        ? { placeholder, value: value ?? '', domains }
        : { placeholder, value: '', domains, problem }
    })
  }

  /** The environment variables of a sandbox's secrets. */
  placeholdersOf({ owner, secrets }: Owned): Record<string, string> {
    return Object.fromEntries(
      secrets.flatMap((name) => {
        const row = this.#options.rows.find(owner, name)
        return row === undefined ? [] : [[name, row.placeholder]]
      }),
    )
  }

  /** The caller's own secret. For an admin also another owner's, if the name is unique. */
  #find(name: string, caller: Caller): SecretRow {
    const own = this.#options.rows.find(caller.keyId, name)
    if (own !== undefined) return own
    const [only, ...others] = caller.isAdmin ? this.#options.rows.named(name) : []
    if (only === undefined) throw gone(name)
    if (others.length > 0)
      throw new DormouseError('conflict', `Several keys have a secret named "${name}".`, {
        hint: 'Use the key that the secret belongs to.',
      })
    return only
  }

  #view(row: SecretRow): SecretAnswer {
    return {
      ...{ name: row.name, placeholder: row.placeholder, domains: row.domains },
      createdAt: new Date(row.createdAt).toISOString(),
      updatedAt: new Date(row.updatedAt).toISOString(),
      usedBy: this.#options.usedBy(row.owner, row.name),
    }
  }
}

/** Letters, digits and hyphens need no escaping in headers, URLs, JSON and shells. */
function newPlaceholder(): string {
  return `dormouse-secret-${randomBytes(PLACEHOLDER_BYTES).toString('hex')}`
}

/** Why the value cannot be used. */
function problemOf(name: string, value: string | undefined): string | undefined {
  if (value === undefined) return `The value of the secret "${name}" cannot be read.`
  return value.length < SECRET_MIN_BYTES
    ? `The value of the secret "${name}" has fewer than ${SECRET_MIN_BYTES} characters, so it could be found by trying.`
    : undefined
}

function distinct(domains: readonly string[]): string[] {
  return [...new Set(domains)]
}

function gone(name: string): DormouseError {
  return new DormouseError('not_found', `There is no secret "${name}".`, {
    hint: 'Create it first with POST /v1/secrets; a secret belongs to the key that created it.',
    details: { secret: name },
  })
}
