import type { Claims, Located } from '@dormouse/cluster'
import { isSandboxId } from '@dormouse/contracts'
import type { SandboxDependencies } from '../sandbox/sandbox-dependencies.ts'
import type { Firing, ScheduleRow } from '../schedules/schedule-rows.ts'
import type { ScheduleCluster } from '../schedules/schedule-service.ts'
import type { Cluster } from './cluster.ts'
import type { Places } from './places.ts'

export interface ClusterSchedulesOptions {
  readonly cluster: Cluster
  readonly claims: Claims
  readonly places: Places
  readonly sandboxes: SandboxDependencies['sandboxes']
}

/** Every host has all schedules. The host of the sandbox or service fires it; a job starts on whichever host is first. */
export class ClusterSchedules implements ScheduleCluster {
  readonly #options: ClusterSchedulesOptions

  constructor(options: ClusterSchedulesOptions) {
    this.#options = options
  }

  mayFire(row: ScheduleRow): boolean {
    const { cluster, places } = this.#options
    if (!cluster.isHeld) return false
    const host =
      row.action.type === 'service'
        ? places.find('service', row.action.service, row.owner)
        : this.#elsewhere(row)?.entry.host
    return host === undefined || !cluster.isAlive(host)
  }

  claim(firing: Pick<Firing, 'scheduleId' | 'at'>): Promise<boolean> {
    return this.#options.claims.claim(nameOf(firing))
  }

  async isMine(firing: Pick<Firing, 'scheduleId' | 'at'>): Promise<boolean> {
    const { claims, cluster } = this.#options
    const holder = await claims.holder(nameOf(firing))
    return holder === undefined || holder === cluster.hostId
  }

  async prepare(row: ScheduleRow): Promise<void> {
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

function nameOf({ scheduleId, at }: Pick<Firing, 'scheduleId' | 'at'>): string {
  return `firing ${scheduleId} ${at}`
}
