import type { BurrowCgroup, FirstProcess } from '@dormouse/engine-linux/for-engines'
import type { GuestLink } from '../link/guest-link.ts'
import type { QmpClient } from '../qemu/qmp-client.ts'

/** A QEMU that runs, and the connections to it. */
export interface LaunchedQemu {
  readonly first: FirstProcess
  readonly qmp: QmpClient
  readonly link: GuestLink
  readonly cgroup: BurrowCgroup
}
