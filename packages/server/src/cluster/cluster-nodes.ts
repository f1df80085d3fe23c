import { chooseHost, type HostRecord, type PlacementRequest } from '@dormouse/cluster'
import { DormouseError, type SandboxId } from '@dormouse/contracts'
import type { DrainedAnswer, MovedAnswer } from '@dormouse/contracts/http'
import type { Log } from '../log.ts'
import type { ForkSpread } from '../sandbox/fork-spread.ts'
import type { Sandbox } from '../sandbox/sandbox.ts'
import { noSuchSandbox, reasonOf } from '../sandbox/sandbox-errors.ts'
import type { Sandboxes } from '../sandbox/sandboxes.ts'
import type { Cluster } from './cluster.ts'
import { type Nodes, nodeView } from './nodes.ts'
import { isPortable, reasonToStay } from './replication.ts'
import type { SnapshotCarrier } from './snapshot-carrier.ts'

/** A call may wake the sandbox between its sleep and the move. */
const TRIES_MAX = 5
/** How many sandboxes that stay a node shows: every renewal of its lease carries them. */
const SHOWN_MAX = 20

export interface ClusterNodesOptions {
  readonly cluster: Cluster
  readonly sandboxes: Sandboxes
  readonly transfer: SnapshotCarrier
  readonly log: Log
}

export class ClusterNodes implements Nodes, ForkSpread {
  readonly #options: ClusterNodesOptions

  constructor(options: ClusterNodesOptions) {
    this.#options = options
  }

  list() {
    const { hosts, hostId } = this.#options.cluster
    return hosts
      .all()
      .map((record) => nodeView(record, { state: hosts.stateOf(record.id), isSelf: record.id === hostId }))
  }

  async cordon(id: string, isCordoned: boolean) {
    this.#requireSelf(id)
    await this.#options.cluster.setCordoned(isCordoned)
    const node = this.list().find(({ isSelf }) => isSelf)
    if (node === undefined) throw noSuchNode(id)
    return { ...node, isCordoned, drain: isCordoned ? node.drain : undefined }
  }

  async drain(id: string): Promise<DrainedAnswer> {
    await this.cordon(id, true)
    const moved: MovedAnswer[] = []
    const left: { sandboxId: SandboxId; reason: string }[] = []
    const { cluster, sandboxes } = this.#options
    const all = [...sandboxes.all()].filter(({ isDeleted }) => !isDeleted)
    let gone = 0
    const show = () =>
      cluster.showDrain({
        ...{ total: all.length - gone, moved: moved.length, left: left.length },
        stays: left.slice(0, SHOWN_MAX),
      })
    await show()
    await cluster.services?.giveAll()
    for (const sandbox of all) {
      try {
        moved.push(await this.#moveToBest(sandbox))
      } catch (error) {
        if (sandbox.isDeleted) gone += 1
        else left.push({ sandboxId: sandbox.id, reason: reasonOf(error) })
      }
      await show()
    }
    return { moved, left }
  }

  async move(sandboxId: string, node: string): Promise<MovedAnswer> {
    const sandbox = this.#find(sandboxId)
    const { cluster } = this.#options
    if (node === cluster.hostId) return { sandboxId: sandbox.id, node }
    const record = cluster.hosts.find(node)
    if (record === undefined) throw noSuchNode(node)
    await this.#sleepReplicated(sandbox)
    const problem = this.#problemAt(sandbox, record)
    if (problem !== undefined)
      throw new DormouseError('conflict', `Node ${node} cannot take the sandbox: ${problem}.`, {
        details: { nodes: this.#able(sandbox) },
        hint: 'Choose one of the nodes in `details.nodes`.',
      })
    for (let tries = 0; tries < TRIES_MAX; tries += 1) {
      if (await cluster.give(sandbox, node)) return { sandboxId: sandbox.id, node }
      await this.#sleepReplicated(sandbox)
    }
    throw new DormouseError('conflict', 'The sandbox is used too often to be moved now.')
  }

  async replicate(sandboxId: string): Promise<void> {
    const sandbox = this.#find(sandboxId)
    requirePortable(sandbox)
    if (!(await this.#options.cluster.replication.replicate(sandbox.id)))
      throw new DormouseError('conflict', 'The sandbox woke before its snapshot was in the depot.')
  }

  isWanted({ row }: Sandbox): boolean {
    const { cluster } = this.#options
    // What a child needs is known when its snapshot is.
    const request = {
      ...{ memoryBytes: row.limits.memoryBytes, preferred: cluster.hostId },
      problemOf: () => undefined,
    }
    const self = cluster.hosts.find(cluster.hostId)
    if (!isPortable(row) || self === undefined || chooseHost([self], request).chosen !== undefined)
      return false
    return chooseHost(this.#others(), request).chosen !== undefined
  }

  async place(children: readonly Sandbox[]): Promise<void> {
    for (const child of children)
      await this.#moveToBest(child).catch((err: unknown) => {
        this.#options.log.warn(
          { sandboxId: child.id, err },
          'the child of a fork stays on the host of its parent',
        )
      })
  }

  async #moveToBest(sandbox: Sandbox): Promise<MovedAnswer> {
    await this.#sleepReplicated(sandbox)
    const { chosen, candidates } = chooseHost(this.#others(), this.#requestOf(sandbox))
    if (chosen === undefined) {
      const reasons = candidates.map(({ record: { id }, problem }) => `${id}: ${problem}`)
      const said = `No other node can take the sandbox. ${reasons.join('; ')}`
      throw new DormouseError('conflict', reasons.length === 0 ? said.trim() : `${said}.`, {
        details: { nodes: candidates.map(({ record: { id }, problem }) => ({ id, problem })) },
      })
    }
    return await this.move(sandbox.id, chosen.id)
  }

  async #sleepReplicated(sandbox: Sandbox): Promise<void> {
    requirePortable(sandbox)
    await sandbox.standby({ tier: 'stored', cause: 'asked' })
    await this.#options.cluster.replication.replicate(sandbox.id)
  }

  #able(sandbox: Sandbox): string[] {
    const able = this.#others().filter((record) => this.#problemAt(sandbox, record) === undefined)
    return able.map(({ id }) => id)
  }

  #others() {
    const { hosts, hostId } = this.#options.cluster
    return hosts.all().filter(({ id }) => id !== hostId && hosts.stateOf(id) === 'alive')
  }

  #problemAt(sandbox: Sandbox, record: HostRecord): string | undefined {
    return chooseHost([record], this.#requestOf(sandbox)).candidates[0]?.problem
  }

  #requestOf({ id, row }: Sandbox): PlacementRequest {
    const { cluster, transfer } = this.#options
    const replica = cluster.owned.find(id)?.entry.replica
    return {
      ...{ memoryBytes: row.limits.memoryBytes, preferred: cluster.hostId },
      arrivingBytes: (host) => (replica === undefined ? 0 : transfer.arrivingBytes(replica, host)),
      problemOf: (host) => {
        if (cluster.hosts.stateOf(host.id) !== 'alive') return 'it is not alive'
        return replica && transfer.problemOf(replica.needs, host)
      },
    }
  }

  #find(sandboxId: string): Sandbox {
    const sandbox = this.#options.sandboxes.find(sandboxId)
    if (sandbox === undefined) throw noSuchSandbox(sandboxId)
    return sandbox
  }

  #requireSelf(id: string): void {
    if (id !== this.#options.cluster.hostId) throw noSuchNode(id)
  }
}

function requirePortable({ row }: Sandbox): void {
  const reason = reasonToStay(row)
  if (reason === undefined) return
  throw new DormouseError('conflict', `The sandbox cannot leave its host: ${reason}.`, {
    hint:
      row.volumes.length > 0
        ? 'Take its volumes away first (`volumes: []`), and copy what is on them.'
        : 'Wait until its use has ended, or delete it.',
  })
}

function noSuchNode(id: string): DormouseError {
  return new DormouseError('not_found', `There is no node ${id}.`, {
    hint: 'List them with `dormouse nodes`.',
  })
}
