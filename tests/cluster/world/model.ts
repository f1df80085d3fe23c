import { setTimeout as sleep } from 'node:timers/promises'
import { expect } from 'vitest'
import type { Dice } from '../../fuzz/dice.ts'
import type { ServerProcess } from '../../server/server-process.ts'
import { type Beat, findOverlap } from './beats.ts'
import { type FaultyCluster, LEASE_MS } from './faulty-cluster.ts'

const CALL_TIMEOUT_MS = 12_000
/** Shorter than the part of a lease in which neither host owns a sandbox. */
const AT_ONCE_MS = 500

/** What must be true of a sandbox, whatever happens to its hosts. */
export interface Known {
  readonly id: string
  /** The counter at the last sleep that was acknowledged with durability `cluster`. */
  durable: number
  /** Its deletion was acknowledged. */
  isDeleted: boolean
  /** A deletion was asked for. Without an answer it may have happened. */
  mayBeDeleted: boolean
}

type Options = Parameters<ServerProcess['call']>[1]

/** A model of the sandboxes of a cluster, outside of it, and the calls that compare the two. */
export class Model {
  readonly all: Known[] = []
  readonly beats: Beat[] = []
  /** What was acknowledged, and how many calls were not. */
  readonly counts = { increments: 0, sleeps: 0, deletions: 0, failures: 0 }
  /** What the last call said that did not succeed. */
  lastFailure = ''
  readonly #cluster: FaultyCluster
  readonly #seed: number

  constructor(cluster: FaultyCluster, seed: number) {
    this.#cluster = cluster
    this.#seed = seed
  }

  /** Undefined when the host does not answer, or refuses for now. */
  async ask(host: ServerProcess, path: string, options: Options = {}) {
    const signal = AbortSignal.timeout(CALL_TIMEOUT_MS)
    const { key } = this.#cluster
    const answer = await host.call(path, { key, signal, ...options }).catch((error: unknown) => {
      this.lastFailure = `${path}: ${error}`
      return undefined
    })
    if (answer === undefined || answer.status < 300) return answer && (answer.body ?? {})
    this.lastFailure = `${path}: ${answer.status} ${JSON.stringify(answer.body)}`
    return undefined
  }

  async create(host: ServerProcess): Promise<Known | undefined> {
    const made = await this.ask(host, '/v1/sandboxes', { json: {} })
    if (made === undefined) return undefined
    const known = { id: made.id as string, durable: -1, isDeleted: false, mayBeDeleted: false }
    const code = `${this.#cluster.beatCode(known.id)}\nn = 0`
    const begun = await this.ask(host, `/v1/sandboxes/${known.id}/run`, { json: { code } })
    if (begun?.exitCode !== 0) return undefined
    await this.sleepDurably(host, known)
    // Only from here on must it survive everything.
    if (known.durable < 0) return undefined
    this.all.push(known)
    return known
  }

  async increment(host: ServerProcess, known: Known): Promise<number | undefined> {
    const path = `/v1/sandboxes/${known.id}/run`
    const before = known.durable
    const answer = await this.ask(host, path, { json: { code: 'n += 1; print(n)' } })
    if (answer?.exitCode !== 0) {
      this.counts.failures += 1
      return undefined
    }
    const value = Number(answer.stdout)
    expect(value, `seed ${this.#seed}: ${known.id} was at ${before}`).toBeGreaterThan(before)
    this.counts.increments += 1
    return value
  }

  async sleepDurably(host: ServerProcess, known: Known): Promise<void> {
    const before = await this.#lossOf(host, known)
    const value = await this.increment(host, known)
    const json = { tier: 'stored', durability: 'cluster' }
    const slept = await this.ask(host, `/v1/sandboxes/${known.id}/standby`, { json })
    if (slept?.replicated !== true || value === undefined || before === undefined) return
    // Without a loss meanwhile, what sleeps has the increment. From then on no host may be without it.
    if ((await this.#lossOf(host, known)) !== before) return
    known.durable = Math.max(known.durable, value)
    this.counts.sleeps += 1
  }

  async delete(host: ServerProcess, known: Known): Promise<void> {
    known.mayBeDeleted = true
    const isDeleted = await this.ask(host, `/v1/sandboxes/${known.id}`, { method: 'DELETE' })
    if (isDeleted === undefined) return
    known.isDeleted = true
    this.counts.deletions += 1
  }

  /** It still works, unless a deletion without an answer has happened. */
  async requireThere(host: ServerProcess, known: Known): Promise<void> {
    const works = async () => {
      if ((await this.increment(host, known)) !== undefined) return true
      return known.mayBeDeleted && this.lastFailure.includes(`${known.id}/run: 404`)
    }
    await expect.poll(works, { timeout: 60_000, interval: 500 }).toBe(true)
  }

  /** An acknowledged deletion is not undone. */
  async requireGone(host: ServerProcess, known: Known): Promise<void> {
    const found = await this.ask(host, `/v1/sandboxes/${known.id}`)
    expect(found, `seed ${this.#seed}: ${known.id} was deleted`).toBeUndefined()
  }

  /** A request that was passed on once is served by the owner only. An answer that comes late may be of a later owner. */
  async requireOneOwner(known: Known): Promise<void> {
    const headers = { 'dormouse-hop': 'the-model' }
    const signal = AbortSignal.timeout(AT_ONCE_MS)
    const ask = ({ server }: { server: ServerProcess }) =>
      this.ask(server, `/v1/sandboxes/${known.id}`, { headers, signal })
    const answers = await Promise.all(this.#cluster.hosts.map(ask))
    const owners = answers.filter((answer) => answer !== undefined)
    expect(owners.length, `seed ${this.#seed}: owners of ${known.id}`).toBeLessThanOrEqual(1)
  }

  /** No sandbox was heard from two hosts at once. */
  async requireNoOverlap(): Promise<void> {
    this.beats.push(...(await this.#cluster.beats()))
    expect(findOverlap(this.beats, LEASE_MS), `seed ${this.#seed}`).toBeUndefined()
  }

  /** One random call. */
  async act(dice: Dice, known: Known): Promise<void> {
    const { server } = dice.one(this.#cluster.hosts)
    if (known.isDeleted) await this.requireGone(server, known)
    else if (dice.chance(20)) await this.sleepDurably(server, known)
    else if (dice.chance(2)) await this.delete(server, known)
    else await this.increment(server, known)
    if (!known.isDeleted) await this.requireOneOwner(known)
    await sleep(50)
  }

  /** Who serves the sandbox, and what it last lost. */
  async #lossOf(host: ServerProcess, known: Known): Promise<string | undefined> {
    const path = `/v1/sandboxes/${known.id}/ledger?limit=1000`
    const response = await host
      .fetch(path, { key: this.#cluster.key, signal: AbortSignal.timeout(CALL_TIMEOUT_MS) })
      .catch(() => undefined)
    if (response?.status !== 200) return undefined
    const { items } = (await response.json().catch(() => ({}))) as { items?: { event: string; at: string }[] }
    const losses = (items ?? []).filter(({ event }) => event === 'lost').map(({ at }) => at)
    return `${response.headers.get('dormouse-host') ?? 'here'} ${losses.join(' ')}`
  }
}
