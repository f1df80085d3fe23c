import { randomBytes } from 'node:crypto'
import { setMaxListeners } from 'node:events'
import { DormouseError } from '@dormouse/contracts'
import { type Access, type AuthenticatedKey, hasScope } from '../access/access.ts'
import type { Caller } from '../access/caller.ts'
import type { Ssh, SshEndpoint, SshKeyView } from '../api/services.ts'
import type { Page } from '../store/page.ts'
import type { SshKeyRow, SshKeyRows } from './key-rows.ts'
import { fingerprintOf, lineOf, type PublicKey, parsePublicKey } from './public-key.ts'

/** More than anybody has machines; this is against programs that never stop. */
const KEYS_PER_OWNER = 1000

/** How the user name of a client begins that confirms its key. `+` is in no name of a sandbox. */
export const CONFIRM_PREFIX = 'confirm+'

/** One who lets the holder of a key in. */
export interface Grant {
  readonly key: PublicKey
  readonly name: string
  readonly owner: AuthenticatedKey
  /** Aborted when the SSH key is deleted; the owner has a signal of its own. */
  readonly deleted: AbortSignal
}

/** A key whose holder is about to confirm it. */
export interface Confirmation {
  readonly key: PublicKey
  readonly name: string
  readonly owner: AuthenticatedKey
  /** From here on its holder gets in. False: the key was deleted meanwhile. */
  readonly confirm: () => boolean
}

interface Held {
  row: SshKeyRow
  readonly deletion: AbortController
}

/** Public keys, each with the API key that it belongs to. The rows are the truth; all are held in memory. */
export class SshService implements Ssh {
  readonly #rows: SshKeyRows
  readonly #access: Pick<Access, 'find'>
  readonly #now: () => number
  /** By key; the oldest first. */
  readonly #held = new Map<string, Held[]>()
  #endpoint: SshEndpoint | undefined

  constructor({ rows, access, now }: { rows: SshKeyRows; access: Pick<Access, 'find'>; now: () => number }) {
    this.#rows = rows
    this.#access = access
    this.#now = now
    for (const row of rows.all()) this.#hold(row)
  }

  endpoint(): SshEndpoint | undefined {
    return this.#endpoint
  }

  /** Undefined: it does not listen any more. */
  listensAt(endpoint: SshEndpoint | undefined): void {
    this.#endpoint = endpoint
  }

  addKey({ name, publicKey }: { name: string; publicKey: string }, caller: Caller): SshKeyView {
    const key = parsePublicKey(publicKey)
    if (this.#rows.ofOwner(caller.keyId).length >= KEYS_PER_OWNER)
      throw new DormouseError('limit_reached', `An API key may have ${KEYS_PER_OWNER} SSH keys.`, {
        hint: 'Delete one that is not needed.',
      })
    const id = randomBytes(12).toString('hex')
    const row: SshKeyRow = {
      ...{ id, owner: caller.keyId, name, ...key, createdAt: this.#now() },
      ...{ confirmedAt: undefined, code: newCode() },
    }
    this.#rows.add(row)
    this.#hold(row)
    return viewOf(row)
  }

  listKeys(query: { limit: number; cursor?: string }, caller: Caller): Page<SshKeyView> {
    const { items, nextCursor } = this.#rows.list(query, caller.isAdmin ? undefined : caller.keyId)
    return { items: items.map(viewOf), nextCursor }
  }

  getKey(name: string, caller: Caller): SshKeyView {
    return viewOf(this.#find(name, caller))
  }

  deleteKey(name: string, caller: Caller): void {
    const row = this.#find(name, caller)
    this.#rows.delete(row.id)
    const held = this.#held.get(idOf(row)) ?? []
    const rest = held.filter((one) => one.row.id !== row.id)
    if (rest.length === 0) this.#held.delete(idOf(row))
    else this.#held.set(idOf(row), rest)
    for (const { row: other, deletion } of held) if (other.id === row.id) deletion.abort()
  }

  /** API keys that registered this public key and that its holder has confirmed, oldest first. */
  grantsOf(blob: Buffer): Grant[] {
    return (this.#held.get(blob.toString('base64')) ?? []).flatMap(({ row, deletion }) => {
      const owner = this.#ownerOf(row)
      if (owner === undefined || row.confirmedAt === undefined) return []
      return { key: row, name: row.name, owner, deleted: deletion.signal }
    })
  }

  /** What a client means that connects as `user`. Undefined: it does not want to confirm anything, or not this key. */
  findConfirmation(blob: Buffer, user: string): Confirmation | undefined {
    const held = (this.#held.get(blob.toString('base64')) ?? []).find(
      ({ row }) => row.confirmedAt === undefined && userOf(row) === user,
    )
    const owner = held === undefined ? undefined : this.#ownerOf(held.row)
    if (held === undefined || owner === undefined) return undefined
    const { row } = held
    return { key: row, name: row.name, owner, confirm: () => this.#confirm(held) }
  }

  #confirm(held: Held): boolean {
    if (held.deletion.signal.aborted) return false
    const confirmedAt = this.#now()
    this.#rows.confirm(held.row.id, confirmedAt)
    held.row = { ...held.row, confirmedAt }
    return true
  }

  #ownerOf(row: SshKeyRow): AuthenticatedKey | undefined {
    const owner = this.#access.find(row.owner)
    return owner !== undefined && hasScope(owner, 'run') ? owner : undefined
  }

  #hold(row: SshKeyRow): void {
    const deletion = new AbortController()
    // Every open connection listens.
    setMaxListeners(0, deletion.signal)
    this.#held.set(idOf(row), [...(this.#held.get(idOf(row)) ?? []), { row, deletion }])
  }

  /** The caller's own; for an admin also another's, if there is just one of that name. */
  #find(name: string, caller: Caller): SshKeyRow {
    const named = this.#rows.named(name)
    const own = named.find(({ owner }) => owner === caller.keyId)
    if (own !== undefined) return own
    const [only, ...others] = caller.isAdmin ? named : []
    if (only === undefined)
      throw new DormouseError('not_found', `There is no SSH key "${name}".`, {
        hint: 'List them with `dormouse ssh-key ls`.',
      })
    if (others.length > 0)
      throw new DormouseError('conflict', `Several keys have an SSH key named "${name}".`, {
        hint: 'Use the API key that it belongs to.',
      })
    return only
  }
}

function userOf({ code }: SshKeyRow): string {
  return `${CONFIRM_PREFIX}${code}`
}

/** 100 bits, in letters and digits that are typed easily. */
function newCode(): string {
  return Array.from(randomBytes(20), (byte) => 'abcdefghijklmnopqrstuvwxyz234567'[byte % 32]).join('')
}

function idOf({ blob }: PublicKey): string {
  return blob.toString('base64')
}

function viewOf(row: SshKeyRow): SshKeyView {
  return {
    name: row.name,
    keyId: row.owner,
    type: row.type,
    fingerprint: fingerprintOf(row.blob),
    publicKey: lineOf(row),
    confirmed: row.confirmedAt !== undefined,
    ...(row.confirmedAt === undefined && { confirmAs: userOf(row) }),
    createdAt: new Date(row.createdAt).toISOString(),
  }
}
