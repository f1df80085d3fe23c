import {
  type Collected,
  collectDepot,
  DAY_MS,
  type Depot,
  type Directory,
  type Hosts,
} from '@dormouse/cluster'
import type { SnapshotId } from '@dormouse/contracts'
import type { SnapshotNeeds } from '@dormouse/engine'
import type { Log } from '../log.ts'
import { namedByList, partsInDepot } from './depot-lists.ts'
import type { SnapshotCarrier } from './snapshot-carrier.ts'

const EVERY_MS = 3600 * 1000
/** What did not arrive, because the depot did not answer or the disk was full, is fetched again. */
const RESUME_MS = 10_000
/** A host that was away for longer may publish sandboxes again that were deleted meanwhile. */
const MARKS_KEPT_MS = 30 * DAY_MS

export interface DepotUpkeepOptions {
  readonly hostId: string
  readonly depot: Depot
  readonly directory: Directory
  readonly hosts: Hosts
  readonly transfer: SnapshotCarrier
  readonly isHeld: () => boolean
  readonly log: Log
  /** How often interrupted arrivals are looked for. */
  readonly resumeMs?: number
}

/** Collects the depot once an hour, on one of the hosts, and fetches what an earlier server did not get to. */
export class DepotUpkeep implements Disposable {
  readonly #options: DepotUpkeepOptions
  readonly #timer: NodeJS.Timeout
  readonly #resumes: NodeJS.Timeout
  #resuming: Promise<void> | undefined

  constructor(options: DepotUpkeepOptions) {
    this.#options = options
    this.#timer = setInterval(() => void this.#collectInTurn(), EVERY_MS)
    this.#timer.unref()
    const resume = () => void this.resumeArrivals().catch(() => {})
    this.#resumes = setInterval(resume, options.resumeMs ?? RESUME_MS).unref()
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer)
    clearInterval(this.#resumes)
  }

  /** Continues arrivals that ended with an earlier server, or failed. Without them a sandbox would not wake here. */
  resumeArrivals(): Promise<void> {
    this.#resuming ??= this.#resumeAll().finally(() => {
      this.#resuming = undefined
    })
    return this.#resuming
  }

  async #resumeAll(): Promise<void> {
    const { transfer, log } = this.#options
    for (const { id, origin } of await transfer.interrupted())
      await this.#resume(id, origin).catch((err: unknown) =>
        log.error({ snapshotId: id, err }, 'the memory of a snapshot cannot be fetched'),
      )
  }

  /** Lists of further snapshots that stay. Set when the shared state is open. */
  snapshotLists: () => Promise<readonly string[]> = async () => []

  /** What those snapshots need. Set at the same time. */
  snapshotNeeds: (() => Iterable<SnapshotNeeds>) | undefined

  /** Directories whose marks of deletions go after a while. */
  readonly marked: Pick<Directory, 'forgetRemoved'>[] = []

  /** Removes objects without references from the depot, and old marks from the directory. */
  async collect(): Promise<Collected> {
    const { depot, directory, transfer } = this.#options
    const roots = async () => {
      const entries = await directory.readAll()
      const replicas = entries.flatMap(({ entry }) => entry.replica ?? [])
      if (this.snapshotNeeds !== undefined)
        await transfer.bases?.removeUnused([...replicas.map(({ needs }) => needs), ...this.snapshotNeeds()])
      const bases = (await transfer.bases?.readLists()) ?? []
      return [...replicas.map(({ list }) => list), ...(await this.snapshotLists()), ...bases]
    }
    const collected = await collectDepot(depot, { roots, namedBy: namedByList })
    for (const one of [directory, ...this.marked]) await one.forgetRemoved(MARKS_KEPT_MS)
    return collected
  }

  async #resume(id: SnapshotId, origin: string): Promise<void> {
    const { transfer, depot } = this.#options
    await transfer.resume(id, await partsInDepot(depot, origin))
  }

  /** Two hosts that collect at once do no harm; it is only work done twice. */
  async #collectInTurn(): Promise<void> {
    const { hosts, hostId, isHeld, log } = this.#options
    const [first] = hosts.all().filter(({ id }) => hosts.stateOf(id) === 'alive')
    if (!isHeld() || first?.id !== hostId) return
    try {
      log.info(await this.collect(), 'the depot was collected')
    } catch (err) {
      log.warn({ err }, 'the depot was not collected')
    }
  }
}
