import { chooseHost, type HostRecord } from '@dormouse/cluster'
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

/** Says which host makes a new sandbox: one with room, that has its template or can restore its snapshot. */
export class CreatePlacement implements CreateElsewhere {
  readonly #options: CreatePlacementOptions

  constructor(options: CreatePlacementOptions) {
    this.#options = options
  }

  async create(body: object, keyId: string): Promise<Created | undefined> {
    const { cluster, peers } = this.#options
    const host = this.#choose(body, keyId)
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
  #choose(body: Wanted, owner: string): HostRecord | undefined {
    const { cluster } = this.#options
    const alive = cluster.hosts.all().filter(({ id, address }) => address !== '' && cluster.isAlive(id))
    const origin = this.#originOf(body, owner)
    const { chosen, candidates } = chooseHost(alive, {
      ...{ memoryBytes: body.limits?.memoryBytes ?? 0, preferred: cluster.hostId },
      ...{ problemOf: origin.problemOf, isNear: origin.isNear },
    })
    if (chosen !== undefined || origin.isKnown === false) return chosen
    const isUnable =
      candidates.length > 0 && candidates.every(({ record }) => origin.problemOf(record) !== undefined)
    if (!isUnable) return undefined
    const reasons = candidates.map(({ record, problem }) => `${record.id}: ${problem}`)
    throw new DormouseError('host_unavailable', `No host can make the sandbox. ${reasons.join('; ')}.`, {
      details: { hosts: candidates.map(({ record, problem }) => ({ id: record.id, problem })) },
    })
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
        problemOf: (host) => transfer.problemOfTemplate(template, host) ?? lacksIsolation(host),
      }
    const record = snapshots.recordOf(id)
    // It is not in the depot yet, or not at all.
    if (record === undefined) return here(cluster.hostId, 'the snapshot is not in the depot')
    return {
      isKnown: true,
      isNear: ({ holds }) => holds?.includes(id) === true,
      problemOf: (host) => transfer.problemOf(record.needs, host) ?? lacksIsolation(host),
    }
  }
}

interface Wanted {
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
  readonly problemOf: (record: HostRecord) => string | undefined
}

function here(hostId: string, why: string): Origin {
  return { isKnown: false, isNear: () => true, problemOf: ({ id }) => (id === hostId ? undefined : why) }
}
