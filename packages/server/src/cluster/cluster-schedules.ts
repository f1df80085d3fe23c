import type { Claims, Located } from '@dormouse/cluster'
import { DormouseError, isSandboxId } from '@dormouse/contracts'
import type { SandboxDependencies } from '../sandbox/sandbox-dependencies.ts'
import type { Firing, ScheduleRow } from '../schedules/schedule-rows.ts'
import type { ScheduleCluster } from '../schedules/schedule-service.ts'
import type { Cluster } from './cluster.ts'
import type { ClusterServices } from './cluster-services.ts'

export interface ClusterSchedulesOptions {
  readonly cluster: Cluster
  readonly claims: Claims
  readonly services: Pick<ClusterServices, 'hostOf' | 'placeOf'>
  readonly sandboxes: SandboxDependencies['sandboxes']
}

/** Every host has all schedules. The host of the sandbox or service fires it; a job starts on whichever host is first. */
export class ClusterSchedules implements ScheduleCluster {
  readonly #options: ClusterSchedulesOptions

  constructor(options: ClusterSchedulesOptions) {
    this.#options = options
  }

  mayFire(row: ScheduleRow): boolean {
    const { cluster, services } = this.#options
    if (!cluster.isHeld) return false
    const host =
      row.action.type === 'service'
        ? services.hostOf(row.action.service, row.owner)
        : this.#elsewhere(row)?.entry.host
    return host === undefined || !cluster.isAlive(host)
  }

  async claim({ id: scheduleId, action }: ScheduleRow, at: number): Promise<'mine' | 'taken' | 'lost'> {
    const { claims } = this.#options
    const name = nameOf({ scheduleId, at })
    if (await claims.claim(name)) return 'mine'
    if (!(await this.#isOver(await claims.holder(name)))) return 'taken'
    // The lost host may have sent a request. Runs and jobs have keys: they are not started twice.
    if (action.type !== 'run' && action.type !== 'job') return 'lost'
    return (await this.takeLost({ scheduleId, at })) ? 'mine' : 'taken'
  }

  takeLost(firing: Pick<Firing, 'scheduleId' | 'at'>): Promise<boolean> {
    return this.#options.claims.takeOver(nameOf(firing), (holder) => this.#isOver(holder))
  }

  /** The lease of the host has ended: it does not act before it has asked who has its claims. */
  async #isOver(hostId: string | undefined): Promise<boolean> {
    const { hosts } = this.#options.cluster
    const record = hostId === undefined ? undefined : hosts.find(hostId)
    if (record === undefined || hosts.stateOf(record.id) === 'alive') return false
    return await hosts.end(record.id, record.epoch)
  }

  async isMine(firing: Pick<Firing, 'scheduleId' | 'at'>): Promise<boolean> {
    const { claims, cluster } = this.#options
    const holder = await claims.holder(nameOf(firing))
    return holder === undefined || holder === cluster.hostId
  }

  async prepare(row: ScheduleRow): Promise<void> {
    if (row.action.type === 'service') {
      const host = await this.#options.services.placeOf(row.action.service, row.owner)
      if (host !== undefined) throw onOtherHost(host.id)
    }
    const located = this.#elsewhere(row)
    if (located !== undefined) await this.#options.cluster.takeOver.locate(located.id, { isFresh: true })
  }

  /** The entry of its sandbox, unless the sandbox is here. */
  #elsewhere({ action, owner }: ScheduleRow): Located | undefined {
    const { cluster, sandboxes } = this.#options
    if (action.type !== 'run' && action.type !== 'request') return undefined
    const ref = action.sandbox
    if (sandboxes.find(ref) !== undefined || sandboxes.findNamed(ref, owner) !== undefined) return undefined
    if (isSandboxId(ref)) return cluster.directory.find(ref)
    for (const located of cluster.directory.all())
      if (located.entry.name === ref && located.entry.owner === owner) return located
    return undefined
  }
}

function onOtherHost(host: string): DormouseError {
  return new DormouseError('host_unavailable', `The service is on host ${host} now.`, { details: { host } })
}

function nameOf({ scheduleId, at }: Pick<Firing, 'scheduleId' | 'at'>): string {
  return `firing ${scheduleId} ${at}`
}
