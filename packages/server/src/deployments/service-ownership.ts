import type { ServiceId } from '@dormouse/contracts'
import type { ServiceRow } from './service-rows.ts'

/** What a host of a cluster agrees on with the others before it makes or removes a service. */
export interface ServiceOwnership {
  /** The new service and its name are this host's. Throws `name_taken`. */
  claim(row: ServiceRow): Promise<void>
  /** The service is gone: no host continues it. */
  release(row: ServiceRow): Promise<void>
  /** The first number of a line in the log of the service on this host. Hosts that had it before used lower ones. */
  firstSeq(id: ServiceId): number
}
