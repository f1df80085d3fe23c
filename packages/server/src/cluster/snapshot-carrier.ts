import type { HostDescription } from '@dormouse/cluster'
import { DormouseError, ISOLATIONS, type Isolation, type SnapshotId } from '@dormouse/contracts'
import type {
  ArrivingPart,
  ArrivingSnapshot,
  BaseTransfer,
  Engine,
  PortableSnapshot,
  SnapshotNeeds,
  SnapshotTransfer,
} from '@dormouse/engine'
import { z } from 'zod'
import type { SharedBases } from './shared-bases.ts'

/** What a host record says that the host can restore. */
export type Abilities = Pick<HostDescription, 'abilities' | 'isolations'>

/** The same, with what says whether it can fetch what it lacks. */
type Taker = Abilities & Partial<Pick<HostDescription, 'arch' | 'fetchesBases'>>

type ProblemOf = SnapshotTransfer['problemOf']

/** What records say of a snapshot in the depot. */
interface StoredSnapshot {
  readonly needs?: SnapshotNeeds
  readonly bytes?: number | undefined
}

/** A snapshot in the depot. */
export interface CarriedSnapshot {
  readonly needs: SnapshotNeeds
  readonly parts: readonly ArrivingPart[]
  /** Where the parts come from: `interrupted` tells it. */
  readonly origin: string
}

const FIRST: Isolation = 'process'
const otherNeedsSchema = z.object({ isolation: z.enum(ISOLATIONS), needs: z.unknown() })

/**
 * Carries snapshots of all isolations between hosts. Needs and abilities of isolation `process` are as its engine says
 * them, because earlier versions know no others. Those of other isolations are beside them.
 */
export class SnapshotCarrier {
  readonly #engine: Pick<Engine, 'isolationOf' | 'transferOf'>
  readonly #first: SnapshotTransfer
  readonly #transfers: ReadonlyMap<Isolation, SnapshotTransfer>
  readonly #problems: ReadonlyMap<Isolation, ProblemOf>

  /** What snapshots stand on. Set when this host has joined its cluster. */
  bases: SharedBases | undefined

  /** `problems`: of isolations that this host may lack. It still places sandboxes on hosts that have them. */
  constructor(
    engine: Pick<Engine, 'isolationOf' | 'transferOf'>,
    first: SnapshotTransfer,
    problems: Readonly<Partial<Record<Isolation, ProblemOf>>>,
  ) {
    this.#engine = engine
    this.#first = first
    const others = ISOLATIONS.flatMap((isolation) => {
      const transfer = engine.transferOf(isolation)
      return transfer === undefined || isolation === FIRST ? [] : [[isolation, transfer] as const]
    })
    this.#transfers = new Map(others)
    this.#problems = new Map(Object.entries(problems) as [Isolation, ProblemOf][])
  }

  async abilities(): Promise<Abilities> {
    const isolations: Record<string, unknown> = {}
    for (const [isolation, transfer] of this.#transfers) isolations[isolation] = await transfer.abilities()
    return { abilities: await this.#first.abilities(), isolations }
  }

  /** Undefined: this host's snapshots bring all that they stand on. */
  get baseTransfer(): BaseTransfer | undefined {
    return this.#first.bases
  }

  /** Why a host cannot restore a snapshot with these needs; undefined when it can. */
  problemOf(needs: SnapshotNeeds, host: Taker | undefined): string | undefined {
    const other = otherNeedsSchema.safeParse(needs)
    const canFetch = (base: string) =>
      host?.fetchesBases === true && this.bases?.has(base, host.arch ?? '') === true
    if (!other.success) return this.#first.problemOf(needs, host?.abilities, canFetch)
    return this.#problemOfOther(other.data.isolation, other.data.needs, host)
  }

  /** What a host would have to fetch to restore a snapshot, at most; what no host has said counts as nothing. */
  arrivingBytes({ needs, bytes = 0 }: StoredSnapshot, { abilities }: Abilities): number {
    return bytes + (this.bases?.lackedBytes(needs, abilities) ?? 0)
  }

  /** Why a host cannot make sandboxes of a template of the host; undefined when it can. */
  problemOfTemplate(name: string, host: Abilities): string | undefined {
    return this.#first.problemOfTemplate(name, host.abilities)
  }

  /** Why a host cannot make sandboxes with this isolation; undefined when it can. */
  problemOfIsolation(isolation: Isolation, host: Abilities): string | undefined {
    const isThere = isolation === FIRST || host.isolations?.[isolation] !== undefined
    return isThere ? undefined : this.#problemOfOther(isolation, undefined, host)
  }

  /** As `SnapshotTransfer.export`. */
  export<Value>(id: SnapshotId, work: (snapshot: PortableSnapshot) => Promise<Value>): Promise<Value> {
    const isolation = this.#engine.isolationOf(id) ?? FIRST
    if (isolation === FIRST) return this.#first.export(id, work)
    return this.#transferOf(isolation).export(id, ({ needs, parts }) =>
      work({ needs: { isolation, needs } satisfies z.output<typeof otherNeedsSchema>, parts }),
    )
  }

  /** As `SnapshotTransfer.import`. */
  async import(id: SnapshotId, { needs, parts, origin }: CarriedSnapshot): Promise<void> {
    const isolation = otherNeedsSchema.safeParse(needs).data?.isolation
    const work = () => this.#transferOf(isolation ?? FIRST).import(id, parts, origin, needs)
    if (isolation !== undefined || this.bases === undefined) await work()
    else await this.bases.withBases(needs, work)
  }

  async interrupted(): Promise<readonly ArrivingSnapshot[]> {
    return (await Promise.all(this.#all().map((transfer) => transfer.interrupted()))).flat()
  }

  async resume(id: SnapshotId, parts: readonly ArrivingPart[]): Promise<void> {
    await this.#transferOf(this.#engine.isolationOf(id) ?? FIRST).resume(id, parts)
  }

  async untilArrived(id: SnapshotId): Promise<void> {
    await this.#transferOf(this.#engine.isolationOf(id) ?? FIRST).untilArrived(id)
  }

  /** As in `SnapshotTransfer`. */
  get forms(): readonly string[] {
    return this.#all().flatMap(({ forms }) => forms)
  }

  limitForms(isUsable: (form: string) => boolean): void {
    for (const transfer of this.#all()) transfer.limitForms(isUsable)
  }

  get arrivedBytes(): number {
    return this.#all().reduce((sum, transfer) => sum + transfer.arrivedBytes, 0)
  }

  #problemOfOther(isolation: Isolation, needs: unknown, host: Abilities | undefined): string | undefined {
    const problemOf = this.#problems.get(isolation)
    return problemOf === undefined
      ? 'it has another version of the engine'
      : problemOf(needs, host?.isolations?.[isolation])
  }

  #transferOf(isolation: Isolation): SnapshotTransfer {
    const transfer = isolation === FIRST ? this.#first : this.#transfers.get(isolation)
    if (transfer !== undefined) return transfer
    throw new DormouseError(
      'isolation_unavailable',
      `This server has no sandboxes with isolation "${isolation}".`,
    )
  }

  #all(): SnapshotTransfer[] {
    return [this.#first, ...this.#transfers.values()]
  }
}
