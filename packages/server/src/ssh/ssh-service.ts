import { randomBytes } from 'node:crypto'
import { setMaxListeners } from 'node:events'
import { DormouseError } from '@dormouse/contracts'
import { type Access, type AuthenticatedKey, hasScope } from '../access/access.ts'
import type { Caller } from '../access/caller.ts'
import type { Ssh, SshEndpoint, SshKeyView } from '../api/services.ts'
import type { Page } from '../store/page.ts'
import type { SshKeyRow, SshKeyRows } from './key-rows.ts'
import { fingerprintOf, lineOf, type PublicKey, parsePublicKey } from './public-key.ts'

/** More than anyone has machines; stops programs in a loop. */
const KEYS_PER_OWNER = 1000

/** The prefix of the user name when a client confirms its key. Sandbox names contain no `+`. */
export const CONFIRM_PREFIX = 'confirm+'

/** An API key that registered a public key: its holder may use that key's sandboxes. */
export interface Grant {
  readonly key: PublicKey
  readonly name: string
  readonly owner: AuthenticatedKey
  /** Aborted when the SSH key is deleted. `owner` has a signal of its own. */
  readonly deleted: AbortSignal
}

/** A key that its holder is about to confirm. */
export interface Confirmation {
  readonly key: PublicKey
  readonly name: string
  readonly owner: AuthenticatedKey
  /** Gives the holder access. Returns false when the key was deleted in the meantime. */
  readonly confirm: () => boolean
}

interface Held {
  row: SshKeyRow
  readonly deletion: AbortController
}

/** SSH public keys and their API keys. The rows are authoritative; all are cached in memory. */
export class SshService implements Ssh {
  readonly #rows: SshKeyRows
  readonly #access: Pick<Access, 'find'>
  readonly #now: () => number
  /** By public key; oldest first. */
  readonly #held = new Map<string, Held[]>()
  #endpoint: SshEndpoint | undefined

  constructor({ rows, access, now }: { rows: SshKeyRows; access: Pick<Access, 'find'>; now: () => number }) {
    this.#rows = rows
    this.#access = access
    this.#now = now
    for (const row of rows.all()) this.#hold(row)
  }

  /** Another host of the cluster has changed rows. */
  reload(): void {
    const rows = new Map(this.#rows.all().map((row) => [row.id, row]))
    for (const [id, held] of this.#held) {
      for (const one of held) {
        const row = rows.get(one.row.id)
        rows.delete(one.row.id)
        if (row === undefined) one.deletion.abort()
        else one.row = row
      }
      const rest = held.filter(({ deletion }) => !deletion.signal.aborted)
      if (rest.length === 0) this.#held.delete(id)
      else this.#held.set(id, rest)
    }
    for (const row of rows.values()) this.#hold(row)
  }

  endpoint(): SshEndpoint | undefined {
    return this.#endpoint
  }

  /** Undefined when the SSH server is off. */
  listensAt(endpoint: SshEndpoint | undefined): void {
    this.#endpoint = endpoint
  }

  addKey({ name, publicKey }: { name: string; publicKey: string }, caller: Caller): SshKeyView {
    const key = parsePublicKey(publicKey)
    if (this.#rows.ofOwner(caller.keyId).length >= KEYS_PER_OWNER)
      throw new DormouseError('limit_reached', `An API key may have ${KEYS_PER_OWNER} SSH keys.`, {
        hint: 'Delete one that you no longer need.',
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

  /** The confirmation that a client asks for by connecting as `user`. Undefined when there is none for this key. */
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
    // Every open connection adds a listener.
    setMaxListeners(0, deletion.signal)
    this.#held.set(idOf(row), [...(this.#held.get(idOf(row)) ?? []), { row, deletion }])
  }

  /** The caller's own key. For an admin also another owner's, if the name is unique. */
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

/** 100 random bits, in characters that are easy to type. */
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
