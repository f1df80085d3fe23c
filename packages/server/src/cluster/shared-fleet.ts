import type { Directory, HostRecord } from '@dormouse/cluster'
import {
  type ActivityAnswer,
  activitySchema,
  type OverviewAnswer,
  overviewSchema,
} from '@dormouse/contracts/http'
import type { Caller } from '../access/caller.ts'
import type { FleetElsewhere, HostNumbers, RowElsewhere } from '../fleet/fleet-elsewhere.ts'
import { groupOfRow, noNumbers } from '../fleet/host-numbers.ts'
import type { SnapshotsElsewhere } from '../sandbox/snapshots-elsewhere.ts'
import type { SandboxRow } from '../store/sandbox-rows.ts'
import type { SnapshotRow } from '../store/snapshot-rows.ts'
import type { Usage } from '../usage/usage.ts'
import type { Peers } from './peers.ts'

export interface SharedFleetOptions {
  readonly directory: Directory
  readonly peers: Peers
  readonly snapshots: Pick<SnapshotsElsewhere, 'list'>
  readonly usage: Usage
  readonly isHere: (id: string) => boolean
}

/** Sandboxes of the other hosts, for overviews: the directory knows all of them, and their hosts the rest. */
export class SharedFleet implements FleetElsewhere {
  readonly #options: SharedFleetOptions

  constructor(options: SharedFleetOptions) {
    this.#options = options
  }

  *rows(caller: Caller): Generator<RowElsewhere> {
    for (const { row, ancestors } of this.#all(caller)) yield { row, ancestors }
  }

  snapshots(sandboxId: string, owner: string | undefined): SnapshotRow[] {
    return this.#options.snapshots.list({ sandboxId }, owner)
  }

  async numbers(caller: Caller): Promise<HostNumbers[]> {
    const asked = await this.#ask('/v1/overview', caller)
    const answered = asked.flatMap(({ host, answer }) => {
      const numbers = overviewSchema.safeParse(answer).data
      return numbers === undefined ? [] : [{ host, numbers }]
    })
    const known = new Set(answered.map(({ host }) => host.id))
    const others = noNumbers()
    for (const { row, host } of this.#all(caller)) if (!known.has(host)) others[groupOfRow(row)] += 1
    return [...answered.map(({ numbers }) => numbers), others]
  }

  async activity(ids: readonly string[], caller: Caller): Promise<ActivityAnswer['items']> {
    const asked = await this.#ask(`/v1/activity?ids=${ids.join(',')}`, caller)
    return asked.flatMap(({ answer }) => activitySchema.safeParse(answer).data?.items ?? [])
  }

  async cost(caller: Caller): Promise<OverviewAnswer['cost']> {
    const { total, currency } = await this.#options.usage.report({}, caller)
    return { currency, spent: total.cost, alwaysOn: total.alwaysOnCost }
  }

  async #ask(path: string, { keyId }: Caller): Promise<{ host: HostRecord; answer: unknown }[]> {
    const { peers } = this.#options
    return await Promise.all(
      peers.alive().map(async (host) => {
        return { host, answer: await peers.get(host, path, keyId).catch(() => undefined) }
      }),
    )
  }

  *#all({ isAdmin, keyId }: Caller): Generator<RowElsewhere & { host: string }> {
    const { directory, isHere } = this.#options
    for (const { id, entry } of directory.all()) {
      const { owner, state, host, ancestors = [] } = entry
      if ((!isAdmin && owner !== keyId) || state === 'deleting' || isHere(id)) continue
      yield { host, ancestors, row: { ...(entry.row as SandboxRow), state: state as SandboxRow['state'] } }
    }
  }
}
