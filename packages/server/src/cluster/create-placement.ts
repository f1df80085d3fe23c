import { type Candidate, chooseHost, diskProblemOf, type HostRecord } from '@dormouse/cluster'
import { DormouseError, type Isolation, isSandboxId, isSnapshotId } from '@dormouse/contracts'
import { DEFAULT_TEMPLATE } from '@dormouse/contracts/http'
import type { TemplateCatalog } from '../templates/template-catalog.ts'
import type { Cluster } from './cluster.ts'
import type { Created, CreateElsewhere } from './create-elsewhere.ts'
import type { Peers } from './peers.ts'
import type { SharedSnapshots } from './shared-snapshots.ts'
import type { SnapshotCarrier } from './snapshot-carrier.ts'

export interface CreatePlacementOptions {
  readonly cluster: Cluster
  readonly peers: Peers
  readonly snapshots: SharedSnapshots
  readonly catalog: TemplateCatalog
  readonly transfer: SnapshotCarrier
}

const CREATE_TIMEOUT_MS = 120_000
/** As a host alone says when it is low on disk. */
const FULL_RETRY_MS = 60_000

/** Says which host makes a new sandbox: one with room, that has its template or can restore its snapshot. */
export class CreatePlacement implements CreateElsewhere {
  readonly #options: CreatePlacementOptions

  constructor(options: CreatePlacementOptions) {
    this.#options = options
  }

  async create(body: object, keyId: string): Promise<Created | undefined> {
    const { cluster, peers } = this.#options
    const host = await this.#choose(body, keyId)
    if (host === undefined || host.id === cluster.hostId) return undefined
    const request = { method: 'POST', path: '/v1/sandboxes', body, keyId, timeoutMs: CREATE_TIMEOUT_MS }
    return { ...(await peers.request(host, request)), address: host.address }
  }

  async createJob(
    body: { readonly sandbox?: string | undefined },
    keyId: string,
  ): Promise<Created | undefined> {
    const { cluster, peers } = this.#options
    const { sandbox } = body
    if (sandbox === undefined || cluster.isHere(sandbox)) return undefined
    const owner = isSandboxId(sandbox) ? undefined : keyId
    const place = await cluster.locate(sandbox, { owner, isFresh: false })
    if (place.kind !== 'elsewhere') return undefined
    const request = { method: 'POST', path: '/v1/jobs', body, keyId, timeoutMs: CREATE_TIMEOUT_MS }
    return { ...(await peers.request(place.host, request)), address: place.host.address }
  }

  /** Undefined: this host answers, and says why if it cannot. */
  async #choose(body: Wanted, owner: string): Promise<HostRecord | undefined> {
    const { cluster } = this.#options
    const alive = cluster.hosts.all().filter(({ id, address }) => address !== '' && cluster.isAlive(id))
    const origin = this.#originOf(body, owner)
    const { chosen, candidates } = chooseHost(alive, {
      ...{ memoryBytes: body.limits?.memoryBytes ?? 0, preferred: cluster.hostId },
      ...{ problemOf: origin.problemOf, isNear: origin.isNear, arrivingBytes: origin.arrivingBytes },
    })
    if (chosen !== undefined || !this.#isHopeless(origin, candidates)) return chosen
    if (await this.#isThere(body, owner)) return undefined
    const reasons = candidates.map(({ record, problem }) => `${record.id}: ${problem}`)
    const isFull = candidates.some(({ record }) => lacksDisk(origin, record))
    throw new DormouseError('host_unavailable', `No host can make the sandbox. ${reasons.join('; ')}.`, {
      details: {
        hosts: candidates.map(({ record, problem }) => ({ id: record.id, problem })),
        ...(isFull && { retryAfterMs: FULL_RETRY_MS }),
      },
      ...(isFull && { hint: 'Delete sandboxes or snapshots, or give a data directory more room.' }),
    })
  }

  /** A sandbox that is there already needs no room. */
  async #isThere({ name, getOrCreate }: Wanted, owner: string): Promise<boolean> {
    if (name === undefined || getOrCreate !== true) return false
    return (await this.#options.cluster.names.find({ name, owner })) !== undefined
  }

  /** Whether this host would refuse, too, and could only speak for itself. */
  #isHopeless(origin: Origin, candidates: readonly Candidate[]): boolean {
    const isUnable = candidates.every(({ record }) => origin.problemOf(record) !== undefined)
    // What is wrong with a template that no host has, this host says best.
    if (isUnable) return origin.isKnown && candidates.length > 0
    const own = candidates.find(({ record }) => record.id === this.#options.cluster.hostId)
    return own !== undefined && (origin.problemOf(own.record) !== undefined || lacksDisk(origin, own.record))
  }

  #originOf(
    { snapshot, template = DEFAULT_TEMPLATE, isolation: asked, volumes = [] }: Wanted,
    owner: string,
  ): Origin {
    const { cluster, snapshots, catalog, transfer } = this.#options
    // Volumes belong to one host. A name of a snapshot is resolved by the host that has its sandbox.
    if (volumes.length > 0 || (snapshot !== undefined && !isSnapshotId(snapshot)))
      return here(cluster.hostId, 'volumes and names of snapshots are those of the host that is asked')
    const isolation = asked ?? (snapshot === undefined ? catalog.isolationOf(template, owner) : undefined)
    const lacksIsolation = (host: HostRecord) => isolation && transfer.problemOfIsolation(isolation, host)
    const id = snapshot ?? catalog.snapshotsOf(template, owner)?.snapshotId
    if (id === undefined)
      return {
        isKnown: false,
        isNear: () => true,
        arrivingBytes: () => 0,
        problemOf: (host) => transfer.problemOfTemplate(template, host) ?? lacksIsolation(host),
      }
    const record = snapshots.recordOf(id)
    // It is not in the depot yet, or not at all.
    if (record === undefined) return here(cluster.hostId, 'the snapshot is not in the depot')
    return {
      isKnown: true,
      isNear: ({ holds }) => holds?.includes(id) === true,
      arrivingBytes: (host) => snapshots.arrivingBytes(id, host),
      problemOf: (host) => transfer.problemOf(record.needs, host) ?? lacksIsolation(host),
    }
  }
}

interface Wanted {
  readonly name?: string
  readonly getOrCreate?: boolean
  readonly template?: string
  readonly snapshot?: string
  readonly isolation?: Isolation
  readonly volumes?: readonly unknown[]
  readonly limits?: { readonly memoryBytes?: number }
}

interface Origin {
  /** Its needs are known, so that a host that lacks them is refused and not asked. */
  readonly isKnown: boolean
  readonly isNear: (record: HostRecord) => boolean
  readonly arrivingBytes: (record: HostRecord) => number
  readonly problemOf: (record: HostRecord) => string | undefined
}

function here(hostId: string, why: string): Origin {
  const problemOf = ({ id }: HostRecord) => (id === hostId ? undefined : why)
  return { isKnown: false, isNear: () => true, arrivingBytes: () => 0, problemOf }
}

/** The host could make the sandbox if it had more free disk. */
function lacksDisk({ problemOf, arrivingBytes }: Origin, record: HostRecord): boolean {
  return problemOf(record) === undefined && diskProblemOf(record, arrivingBytes(record)) !== undefined
}
