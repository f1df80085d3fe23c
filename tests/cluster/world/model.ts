import { expect } from 'vitest'
import type { ServerProcess } from '../../server/server-process.ts'
import { type Beat, findOverlap } from './beats.ts'
import { type FaultyCluster, type FaultyHost, LEASE_MS } from './faulty-cluster.ts'
import { KnownJobs } from './jobs.ts'
import { type Kept, Known } from './known.ts'

const CALL_TIMEOUT_MS = 12_000
/** Shorter than the part of a lease in which neither host owns a sandbox. */
const AT_ONCE_MS = 500
/** Sandboxes of the model have this; those of jobs do not. */
const METADATA = { world: 'model' }

// biome-ignore lint/suspicious/noExplicitAny: tests compare answers, they do not build on them
type Json = any
interface LedgerEntry {
  readonly event: string
  readonly cause: string
  readonly at: string
}

type Options = Parameters<ServerProcess['call']>[1]

/** A model of the sandboxes of a cluster, outside of it, and the calls that compare the two. */
export class Model {
  readonly all: Known[] = []
  /** Those of them that were forked. */
  readonly children: Known[] = []
  readonly beats: Beat[] = []
  /** What was acknowledged, and how many calls were not. */
  readonly counts = {
    ...{ increments: 0, sleeps: 0, moves: 0, forks: 0, keeps: 0, rollbacks: 0, names: 0, deletions: 0 },
    ...{ jobs: 0, failures: 0 },
  }
  /** What the last call said that did not succeed. */
  lastFailure = ''
  readonly jobs = new KnownJobs(this)
  readonly cluster: FaultyCluster
  readonly seed: number
  /** Calls that make sandboxes: how many are under way, and how many there were. */
  readonly #making = { now: 0, ever: 0 }

  constructor(cluster: FaultyCluster, seed: number) {
    this.cluster = cluster
    this.seed = seed
  }

  get hosts(): readonly FaultyHost[] {
    return this.cluster.hosts
  }

  /** Undefined when the host does not answer, or refuses for now. */
  async ask(host: ServerProcess, path: string, options: Options = {}): Promise<Json> {
    const signal = AbortSignal.timeout(CALL_TIMEOUT_MS)
    const { key } = this.cluster
    const answer = await host.call(path, { key, signal, ...options }).catch((error: unknown) => {
      this.lastFailure = `${path}: ${error}`
      return undefined
    })
    if (answer === undefined || answer.status < 300) return answer && (answer.body ?? {})
    this.lastFailure = `${path}: ${answer.status} ${JSON.stringify(answer.body)}`
    return undefined
  }

  async create(host: ServerProcess): Promise<Known | undefined> {
    const known = await this.#make(async () => {
      const made = await this.ask(host, '/v1/sandboxes', { json: { metadata: METADATA } })
      return made === undefined ? [] : [new Known(made.id)]
    })
    const [one] = known
    if (one === undefined) return undefined
    const code = `${this.cluster.beatCode}\nn = 0`
    const begun = await this.ask(host, `/v1/sandboxes/${one.id}/run`, { json: { code } })
    if (begun?.exitCode === 0) await this.sleepDurably(host, one)
    // Only then must it survive everything.
    if (one.durable >= 0) return one
    this.all.splice(this.all.indexOf(one), 1)
    return undefined
  }

  async increment(host: ServerProcess, known: Known): Promise<number | undefined> {
    const path = `/v1/sandboxes/${known.id}/run`
    const before = known.durable
    known.asked += 1
    const answer = await this.ask(host, path, { json: { code: 'n += 1; print(n)' } })
    if (answer?.exitCode !== 0) {
      this.counts.failures += 1
      known.unanswered += 1
      return undefined
    }
    const value = Number(answer.stdout)
    expect(value, this.#say(`${known.id} was at ${before}`)).toBeGreaterThan(before)
    expect(value, this.#say(`${known.id} was asked ${known.asked} times`)).toBeLessThanOrEqual(known.asked)
    this.counts.increments += 1
    return value
  }

  async sleepDurably(host: ServerProcess, known: Known): Promise<void> {
    const value = await this.#withoutLoss(host, known, async () => {
      const counter = await this.increment(host, known)
      const json = { tier: 'stored', durability: 'cluster' }
      const slept = await this.ask(host, `/v1/sandboxes/${known.id}/standby`, { json })
      return slept?.replicated === true ? counter : undefined
    })
    if (value === undefined) return
    // What sleeps has the increment. From now on no host may be without it.
    known.noteDurable(value)
    this.counts.sleeps += 1
  }

  async move(host: ServerProcess, known: Known, to: FaultyHost): Promise<void> {
    const owners = await this.#ownersOf(known)
    // A move to its own host does nothing.
    if (owners.length !== 1 || owners[0] === to) return
    const before = await this.increment(host, known)
    const json = { node: to.node }
    const moved = await this.ask(host, `/v1/sandboxes/${known.id}/move`, { json })
    if (moved === undefined) return
    this.counts.moves += 1
    const arrivals = (await this.#ledgerAt(to.server, known))?.entries.filter(
      ({ cause }) => cause === 'moved' || cause === 'host lost',
    )
    const after = await this.increment(to.server, known)
    if (before === undefined || after === undefined || arrivals?.at(-1)?.cause !== 'moved') return
    // Nothing was lost in between: then the move has put the first value into the depot.
    if (after > before) known.noteDurable(before)
  }

  /** The child that this acknowledged. */
  async fork(host: ServerProcess, known: Known): Promise<Known | undefined> {
    const [child] = await this.#make(async () => {
      const forked = await this.ask(host, `/v1/sandboxes/${known.id}/fork`, { json: { count: 1 } })
      return (forked?.children ?? []).map(({ id }: Json) => new Known(id, known))
    })
    if (child === undefined) return undefined
    this.children.push(child)
    this.counts.forks += 1
    return child
  }

  async keep(host: ServerProcess, known: Known): Promise<void> {
    const path = `/v1/sandboxes/${known.id}/snapshots`
    const kept = await this.#withoutLoss(host, known, async () => {
      const lowest = await this.increment(host, known)
      const made = lowest === undefined ? undefined : await this.ask(host, path, { json: {} })
      return made && { id: made.id, lowest, highest: known.asked, isShared: false }
    })
    if (kept === undefined) return
    known.kept.push(kept)
    this.counts.keeps += 1
  }

  /** A host that shows a snapshot without asking the host of the sandbox has it from the depot. */
  async lookAtKept({ server }: FaultyHost, known: Known, kept: Kept): Promise<void> {
    const isElsewhere = async () => {
      const owners = await this.#ownersOf(known)
      return owners.length === 1 && owners[0]?.server !== server
    }
    if (!(await isElsewhere())) return
    const found = await this.ask(server, `/v1/snapshots/${kept.id}`)
    if (found !== undefined && (await isElsewhere())) kept.isShared = true
  }

  /** Whether the sandbox was seen to continue from the snapshot. */
  async rollback(host: ServerProcess, known: Known, kept: Kept): Promise<boolean> {
    const acknowledge = known.beginRollback(kept)
    const json = { snapshotId: kept.id }
    const rolled = await this.ask(host, `/v1/sandboxes/${known.id}/rollback`, { json })
    if (rolled === undefined) return false
    acknowledge()
    this.counts.rollbacks += 1
    const value = await this.#withoutLoss(host, known, () => this.increment(host, known))
    if (value === undefined) return false
    const said = this.#say(`${known.id} was rolled back to ${JSON.stringify(kept)}`)
    expect(value, said).toBeGreaterThan(kept.lowest)
    expect(value, said).toBeLessThanOrEqual(kept.highest + 1 + known.unanswered)
    kept.highest = Math.min(kept.highest, value - 1)
    return true
  }

  async rename(host: ServerProcess, known: Known, name: string): Promise<void> {
    const acknowledge = known.beginRename(name)
    const renamed = await this.ask(host, `/v1/sandboxes/${known.id}`, { method: 'PATCH', json: { name } })
    if (renamed === undefined) return
    acknowledge()
    this.counts.names += 1
  }

  /** A name leads to its sandbox, or for a moment nowhere, but never to another one. */
  async requireNamed(host: ServerProcess, known: Known): Promise<boolean> {
    const { name, mayBeDeleted } = known
    if (name === undefined || mayBeDeleted) return true
    const found = await this.ask(host, `/v1/sandboxes/${name}`)
    if (found === undefined) return false
    expect([found.id, found.name], this.#say(`the sandbox called ${name}`)).toEqual([known.id, name])
    return true
  }

  async delete(host: ServerProcess, known: Known): Promise<void> {
    known.mayBeDeleted = true
    const isDeleted = await this.ask(host, `/v1/sandboxes/${known.id}`, { method: 'DELETE' })
    if (isDeleted === undefined) return
    known.isDeleted = true
    this.counts.deletions += 1
  }

  /** An acknowledged deletion is not undone. */
  async requireGone(host: ServerProcess, known: Known): Promise<void> {
    const found = await this.ask(host, `/v1/sandboxes/${known.id}`)
    expect(found, this.#say(`${known.id} was deleted`)).toBeUndefined()
  }

  /** A request that was passed on once is served by the owner only. An answer that comes late may be of a later owner. */
  async requireOneOwner(known: Known): Promise<void> {
    const owners = await this.#ownersOf(known)
    expect(owners.length, this.#say(`owners of ${known.id}`)).toBeLessThanOrEqual(1)
  }

  /** No sandbox was heard from two hosts at once. */
  async requireNoOverlap(): Promise<void> {
    this.beats.push(...(await this.cluster.beats()))
    expect(findOverlap(this.beats, LEASE_MS), this.#say('overlap')).toBeUndefined()
  }

  /** Deletes sandboxes that calls without an answer have made. */
  async removeOrphans(host: ServerProcess): Promise<void> {
    const { now, ever } = this.#making
    if (now > 0) return
    const listed = await this.ask(host, '/v1/sandboxes?limit=1000&metadata.world=model')
    if (listed === undefined || this.#making.ever !== ever) return
    const known = new Set(this.all.map(({ id }) => id))
    for (const { id } of listed.items)
      if (!known.has(id)) await this.ask(host, `/v1/sandboxes/${id}`, { method: 'DELETE' })
  }

  async #ownersOf({ id }: Known): Promise<FaultyHost[]> {
    const headers = { 'dormouse-hop': 'the-model' }
    const signal = AbortSignal.timeout(AT_ONCE_MS)
    const owns = async (host: FaultyHost) =>
      (await this.ask(host.server, `/v1/sandboxes/${id}`, { headers, signal })) === undefined ? [] : [host]
    return (await Promise.all(this.hosts.map(owns))).flat()
  }

  async #make(make: () => Promise<Known[]>): Promise<Known[]> {
    this.#making.now += 1
    this.#making.ever += 1
    try {
      const made = await make()
      this.all.push(...made)
      return made
    } finally {
      this.#making.now -= 1
    }
  }

  /** What `work` returns if the sandbox has lost nothing meanwhile. */
  async #withoutLoss<Value>(
    host: ServerProcess,
    known: Known,
    work: () => Promise<Value | undefined>,
  ): Promise<Value | undefined> {
    const before = await this.#lossOf(host, known)
    const value = await work()
    if (value === undefined || before === undefined) return undefined
    return (await this.#lossOf(host, known)) === before ? value : undefined
  }

  /** The host of the sandbox, and what it last lost. */
  async #lossOf(host: ServerProcess, known: Known): Promise<string | undefined> {
    const ledger = await this.#ledgerAt(host, known)
    if (ledger === undefined) return undefined
    const losses = ledger.entries.filter(({ event }) => event === 'lost').map(({ at }) => at)
    return `${ledger.host} ${losses.join(' ')}`
  }

  async #ledgerAt(
    host: ServerProcess,
    { id }: Known,
  ): Promise<{ host: string; entries: LedgerEntry[] } | undefined> {
    const path = `/v1/sandboxes/${id}/ledger?limit=1000`
    const signal = AbortSignal.timeout(CALL_TIMEOUT_MS)
    const response = await host.fetch(path, { key: this.cluster.key, signal }).catch(() => undefined)
    if (response?.status !== 200) return undefined
    const { items = [] } = (await response.json().catch(() => ({}))) as { items?: LedgerEntry[] }
    return { host: response.headers.get('dormouse-host') ?? 'here', entries: items }
  }

  #say(what: string): string {
    return `seed ${this.seed}: ${what}`
  }
}
