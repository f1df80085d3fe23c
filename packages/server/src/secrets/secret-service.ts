import { randomBytes } from 'node:crypto'
import { DormouseError, type SandboxId, SECRET_MIN_BYTES } from '@dormouse/contracts'
import type { EdgeSecret } from '@dormouse/egress'
import type { Caller } from '../access/caller.ts'
import type { Secrets, SecretView } from '../api/services.ts'
import type { Log } from '../log.ts'
import type { Page } from '../store/page.ts'
import type { SandboxRow } from '../store/sandbox-rows.ts'
import type { SealedValues } from './sealed-values.ts'
import type { SecretRow, SecretRows } from './secret-rows.ts'

/** Against programs that never stop. */
const SECRETS_PER_OWNER = 1000
/** Nobody guesses one, and no text has it by chance. */
const PLACEHOLDER_BYTES = 15

export interface SecretServiceOptions {
  readonly rows: SecretRows
  readonly values: SealedValues
  /** Sandboxes of this owner that have it, awake or asleep. */
  readonly usedBy: (owner: string, name: string) => readonly SandboxId[]
  /** Resolves when the edge goes by what `secretsOf` says of this sandbox now. */
  readonly apply: (id: SandboxId) => Promise<void>
  readonly takeFrom: (id: SandboxId, name: string) => Promise<void>
  readonly now: () => number
  readonly log: Log
}

type Owned = Pick<SandboxRow, 'owner' | 'secrets'>

/** Values that are put into requests outside of sandboxes. They belong to the key that made them, and only its sandboxes can have them. */
export class SecretService implements Secrets {
  readonly #options: SecretServiceOptions

  constructor(options: SecretServiceOptions) {
    this.#options = options
  }

  create(request: { name: string; value: string; domains: readonly string[] }, caller: Caller): SecretView {
    const { rows, values, now } = this.#options
    if (rows.count(caller.keyId) >= SECRETS_PER_OWNER)
      throw new DormouseError('limit_reached', `A key may have ${SECRETS_PER_OWNER} secrets.`, {
        hint: 'Delete one that is not needed.',
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

  list(query: { limit: number; cursor?: string }, caller: Caller): Page<SecretView> {
    const { items, nextCursor } = this.#options.rows.list(query, caller.isAdmin ? undefined : caller.keyId)
    return { items: items.map((row) => this.#view(row)), nextCursor }
  }

  get(name: string, caller: Caller): SecretView {
    return this.#view(this.#find(name, caller))
  }

  async update(
    name: string,
    { value, domains }: { value?: string; domains?: readonly string[] },
    caller: Caller,
  ): Promise<SecretView> {
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

  async delete(name: string, { force }: { force: boolean }, caller: Caller): Promise<void> {
    const { rows, usedBy, takeFrom } = this.#options
    const row = this.#find(name, caller)
    if (force) await Promise.all(usedBy(row.owner, name).map((id) => takeFrom(id, name)))
    // Asked again: another sandbox may have been given it meanwhile.
    const users = usedBy(row.owner, name)
    const [first, ...more] = users
    if (first !== undefined) {
      const others = more.length === 0 ? '' : ` and ${more.length} more`
      throw new DormouseError('in_use', `The secret "${name}" is used by ${first}${others}.`, {
        hint: 'Take it from the sandboxes that have it first, or delete it with `force=true`.',
        details: { usedBy: users.slice(0, 100) },
      })
    }
    rows.delete(row.id)
  }

  /** Throws `not_found` for names that this owner has no secret of, `invalid_argument` for those that `env` has, too. Synchronous: whoever asks must write it down before anybody else acts. */
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
          hint: 'Give one of them another name: both are variables of the environment.',
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
          'a secret cannot be read: secrets.key is not the one that it was written with',
        )
      const problem = problemOf(name, value)
      // The edge refuses requests that have its placeholder, and says why.
      return problem === undefined
        ? { placeholder, value: value ?? '', domains }
        : { placeholder, value: '', domains, problem }
    })
  }

  /** What a sandbox has in its environment for them. */
  placeholdersOf({ owner, secrets }: Owned): Record<string, string> {
    return Object.fromEntries(
      secrets.flatMap((name) => {
        const row = this.#options.rows.find(owner, name)
        return row === undefined ? [] : [[name, row.placeholder]]
      }),
    )
  }

  /** The caller's own; for an admin also another's, if there is just one of that name. */
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

  #view(row: SecretRow): SecretView {
    return {
      ...{ name: row.name, placeholder: row.placeholder, domains: row.domains },
      createdAt: new Date(row.createdAt).toISOString(),
      updatedAt: new Date(row.updatedAt).toISOString(),
      usedBy: this.#options.usedBy(row.owner, row.name),
    }
  }
}

/** Letters, digits and hyphens: the same in a header, a URL, JSON and a shell. */
function newPlaceholder(): string {
  return `dormouse-secret-${randomBytes(PLACEHOLDER_BYTES).toString('hex')}`
}

/** Why no request gets this value. */
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
    hint: 'Create it first with POST /v1/secrets; a secret belongs to the key that made it.',
    details: { secret: name },
  })
}
