import { setTimeout as sleep } from 'node:timers/promises'
import { settledWithin } from '@dormouse/async'
import type { Directory, DirectoryEntry, Located, Names, Replica } from '@dormouse/cluster'
import { DormouseError, type SandboxId } from '@dormouse/contracts'
import { NameTakenElsewhere } from '../sandbox/sandbox-errors.ts'
import type { SandboxRow } from '../store/sandbox-rows.ts'
import { movedAway } from './cluster-errors.ts'

export interface OwnedSandboxesOptions {
  readonly directory: Directory
  readonly names: Names
  readonly hostId: string
  /** What a sandbox was forked from, and that in turn. */
  readonly ancestorsOf: (id: SandboxId) => readonly string[]
  /** Another host owns the sandbox now. Its copy here must end. */
  readonly onLost: (id: SandboxId) => void
}

const RETRY_MS = 500
const CLOSE_MS = 3_000
const SEEN_MS = 1_000
const REMOVE_TRIES = 20

/**
 * The entries of this host in the directory. Writes of one sandbox happen one after the other, and a write that finds
 * another revision than expected means that the sandbox is not this host's any more.
 */
export class OwnedSandboxes {
  /** The lease under which this host owns its sandboxes. */
  epoch = 0
  readonly #options: OwnedSandboxesOptions
  readonly #owned = new Map<string, Located>()
  readonly #newest = new Map<string, SandboxRow>()
  readonly #writing = new Map<string, Promise<void>>()
  /** Those that are being given away: the other host may continue them before this one hears that it has them. */
  readonly #given = new Set<string>()
  #isClosed = false

  constructor(options: OwnedSandboxesOptions) {
    this.#options = options
  }

  find(id: string): Located | undefined {
    return this.#owned.get(id)
  }

  /** Also when the directory does not have it yet. Not while another host may have got it. */
  has(id: string): boolean {
    return !this.#given.has(id) && (this.#owned.has(id) || this.#newest.has(id))
  }

  all(): Iterable<Located> {
    return this.#owned.values()
  }

  /** Adds the entry of a sandbox that is about to be created, then takes its name. On failure nothing is left. */
  async claim(row: SandboxRow): Promise<void> {
    const { directory } = this.#options
    const added = await directory.add(row.id, this.#entryOf(row, undefined))
    if (added === undefined) return
    this.#owned.set(row.id, added)
    // The quota of its owner counts what other hosts have claimed at the same moment.
    await settledWithin(directory.seen(added), SEEN_MS)
    if (row.name === undefined) return
    try {
      await this.#takeName(row, row.name)
    } catch (error) {
      await this.release(row)
      throw error
    }
  }

  /** Takes the name that a sandbox is about to get. The entry says so first: see `settleName`. */
  async claimName(row: SandboxRow, name: string): Promise<void> {
    await this.#setNextName(row.id, name)
    try {
      await this.#takeName(row, name)
    } catch (error) {
      if (error instanceof NameTakenElsewhere) await this.#setNextName(row.id, undefined)
      throw error
    }
  }

  /** The sandbox does not get the name that was claimed for it. */
  async returnName({ id, owner }: SandboxRow, name: string): Promise<void> {
    await this.#options.names.release(id, { name, owner })
    await this.#setNextName(id, undefined)
  }

  /** Gives back the name that a sandbox was about to get when its host, or its lease, ended. Pre: it has an entry. */
  async settleName({ id, owner, name }: SandboxRow): Promise<void> {
    const nextName = this.#owned.get(id)?.entry.nextName
    if (nextName === undefined) return
    if (nextName !== name) await this.#options.names.release(id, { name: nextName, owner })
    await this.#setNextName(id, undefined)
  }

  async #takeName({ id, owner }: SandboxRow, name: string): Promise<void> {
    const { names } = this.#options
    const holder = await names.claim(id, { name, owner })
    if (holder === id) return
    throw new NameTakenElsewhere(name, holder)
  }

  async #setNextName(id: string, nextName: string | undefined): Promise<void> {
    for (let tries = 0; ; tries += 1) {
      await this.flush(id)
      const located = this.#owned.get(id)
      if (located === undefined) throw movedAway(id as SandboxId)
      if (located.entry.nextName === nextName) return
      // The first answer may have been lost, or the entry was claimed for a new lease.
      const put = this.#inTurn(id, () => this.#put(located, { ...located.entry, nextName }))
      if (tries > 0) await put
      else await put.catch(() => {})
    }
  }

  /** Takes the entry out of the directory. Afterwards no host wakes the sandbox. */
  async release({ id, name, owner }: SandboxRow): Promise<void> {
    const { names } = this.#options
    await this.#writing.get(id)?.catch(() => {})
    const located = this.#owned.get(id)
    if (located === undefined) return
    this.#newest.delete(id)
    this.#owned.delete(id)
    const isRemoved = await this.#remove(located).catch((error: unknown) => {
      this.#owned.set(id, located)
      throw error
    })
    if (isRemoved && name !== undefined) await names.release(id, { name, owner })
  }

  /** False when it is gone. Throws when the sandbox is another host's: its entry would bring a deleted sandbox back. */
  async #remove(located: Located): Promise<boolean> {
    const { directory, hostId } = this.#options
    for (let tries = 0; tries < REMOVE_TRIES; tries += 1) {
      if (await directory.remove(located)) return true
      const now = await directory.read(located.id)
      if (now === undefined && (await directory.wasRemoved(located.id))) return false
      if (now !== undefined && now.entry.host !== hostId) break
      if (now !== undefined) located = now
      await sleep(RETRY_MS / 5)
    }
    throw new DormouseError('cluster_unavailable', 'The sandbox could not be removed from the directory.', {
      details: { retryAfterMs: RETRY_MS },
    })
  }

  /** Forgets which entries are this host's, before it claims them for a new lease. */
  reset(): void {
    this.#owned.clear()
    this.#given.clear()
  }

  /** The sandbox is another host's from now on. */
  forget(id: string): void {
    this.#owned.delete(id)
    this.#newest.delete(id)
    this.#given.delete(id)
  }

  /** This host has claimed the entry. */
  hold(located: Located): void {
    this.#owned.set(located.id, located)
  }

  /** Writes the entry of a sandbox in the background, until it succeeds or the sandbox is not this host's any more. */
  publish(row: SandboxRow): void {
    if (row.state === 'deleting' || this.#isClosed) return
    const before = this.#newest.get(row.id) ?? (this.#owned.get(row.id)?.entry.row as SandboxRow | undefined)
    if (before !== undefined && isSame(before, row)) return
    this.#newest.set(row.id, row)
    this.#write(row.id)
  }

  /**
   * Resolves when the entry says that the snapshot is in the depot; false when the sandbox has changed meanwhile. A
   * running sandbox may have a newer checkpoint by now: then this one is still newer than what the entry says.
   */
  async setReplica(id: string, replica: Replica): Promise<boolean> {
    await this.flush(id)
    const located = this.#owned.get(id)
    if (located === undefined) return false
    const { state, head } = located.entry
    if (state !== 'running' && head !== replica.snapshotId) return false
    return await this.#inTurn(id, () => this.#put(located, { ...located.entry, replica }))
  }

  /** Gives the sandbox to another host. False when it is not this host's any more. */
  async giveTo(id: string, to: { host: string; epoch: number }): Promise<boolean> {
    await this.flush(id)
    const located = this.#owned.get(id)
    if (located === undefined) return false
    const entry = { ...located.entry, ...to, generation: located.entry.generation + 1 }
    this.#given.add(id)
    try {
      const isGiven = (await this.#options.directory.change(located, entry)) !== undefined
      if (!isGiven) this.#given.delete(id)
      return isGiven
    } catch (error) {
      void this.#takeBack(id)
      throw error
    }
  }

  /** The answer to a gift was lost. A write of this host is refused when the gift was made, and prevents it otherwise. */
  async #takeBack(id: string): Promise<void> {
    while (this.#given.has(id) && !this.#isClosed) {
      const located = this.#owned.get(id)
      if (located === undefined) break
      const isMine = await this.#inTurn(id, () => this.#put(located, located.entry)).catch(() => undefined)
      if (isMine !== undefined) break
      await sleep(RETRY_MS, undefined, { ref: false })
    }
    this.#given.delete(id)
  }

  /** Resolves when what was published before is written. */
  async flush(id: string): Promise<void> {
    for (let writing = this.#writing.get(id); writing !== undefined; writing = this.#writing.get(id))
      await writing
  }

  /** Waits for writes under way, but not for a NATS that does not answer. */
  async close(): Promise<void> {
    await settledWithin(Promise.allSettled(this.#writing.values()), CLOSE_MS)
    this.#isClosed = true
  }

  #write(id: string): void {
    if (this.#writing.has(id)) return
    const writing = this.#writeUntilDone(id).finally(() => {
      this.#writing.delete(id)
      if (this.#newest.has(id) && !this.#isClosed) this.#write(id)
    })
    this.#writing.set(id, writing)
  }

  async #writeUntilDone(id: string): Promise<void> {
    for (let isDone = false; !isDone && !this.#isClosed && this.#newest.has(id); ) {
      isDone = await this.#writeNewest(id).then(
        () => true,
        () => false,
      )
      // NATS does not answer. The deadline of the lease decides what the host may do meanwhile.
      if (!isDone) await sleep(RETRY_MS, undefined, { ref: false })
    }
  }

  async #writeNewest(id: string): Promise<void> {
    const row = this.#newest.get(id)
    if (row === undefined) return
    const { directory, names } = this.#options
    const located = this.#owned.get(id)
    if (located === undefined) {
      const added = await directory.add(id, this.#entryOf(row, undefined))
      if (added === undefined) return await this.#adopt(id)
      this.#owned.set(id, added)
    } else {
      await this.#put(located, this.#entryOf(row, located.entry))
      const { name, owner } = located.entry
      if (name !== undefined && name !== row.name) await names.release(id, { name, owner })
    }
    if (this.#newest.get(id) === row) this.#newest.delete(id)
  }

  async #inTurn<Value>(id: string, write: () => Promise<Value>): Promise<Value> {
    const written = write()
    const turn = written.then(
      () => {},
      () => {},
    )
    this.#writing.set(id, turn)
    try {
      return await written
    } finally {
      this.#writing.delete(id)
      if (this.#newest.has(id) && !this.#isClosed) this.#write(id)
    }
  }

  async #put(located: Located, entry: DirectoryEntry): Promise<boolean> {
    const { directory } = this.#options
    const changed = await directory.change(located, entry)
    if (changed !== undefined) {
      this.#owned.set(located.id, changed)
      return true
    }
    await this.#adopt(located.id)
    return false
  }

  /**
   * The entry has another revision than this host knew. When it is still this host's, because the answer to a write was
   * lost or the host has claimed it for a new lease, throws, so that the write is tried again.
   */
  async #adopt(id: string): Promise<void> {
    const { directory, hostId } = this.#options
    const now = await directory.read(id)
    const isGone = now === undefined ? await directory.wasRemoved(id) : now.entry.host !== hostId
    if (isGone) return this.#lose(id)
    // Without an entry and without a mark, a NATS server that lags behind has answered, or NATS has lost the entry.
    const mine = this.#owned.get(id)
    const present = now ?? (mine && (await directory.add(id, mine.entry)))
    if (present !== undefined) this.#owned.set(id, present)
    throw new Error('the entry has changed')
  }

  #lose(id: string): void {
    this.forget(id)
    this.#options.onLost(id as SandboxId)
  }

  #entryOf(row: SandboxRow, before: DirectoryEntry | undefined): DirectoryEntry {
    return {
      // A newer version may have added fields.
      ...before,
      host: this.#options.hostId,
      epoch: this.epoch,
      generation: before?.generation ?? 0,
      owner: row.owner,
      name: row.name,
      nextName: before?.nextName === row.name ? undefined : before?.nextName,
      state: row.state,
      head: row.head,
      createdAt: row.createdAt,
      replica: before?.replica,
      ancestors: row.forkedFrom === undefined ? [] : [...this.#options.ancestorsOf(row.id)],
      row,
    }
  }
}

/** What changes with every call does not go into the directory. */
const PASSING = new Set(['lastActiveAt', 'stateSince', 'burrow', 'tier', 'wakesAt', 'diskBytes', 'diskFiles'])

function isSame(before: SandboxRow, row: SandboxRow): boolean {
  const text = (one: SandboxRow) =>
    JSON.stringify(one, (key, value: unknown) => (PASSING.has(key) ? undefined : value))
  return before === row || text(before) === text(row)
}
