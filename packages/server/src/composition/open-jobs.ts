import type { ServerConfig } from '../config/config.ts'
import type { EventFeed } from '../fleet/event-feed.ts'
import type { Closing } from '../host/closing.ts'
import { JobService } from '../jobs/job-service.ts'
import type { RunService } from '../runs/run-service.ts'
import { defaultNetwork, type OpenedSandboxes } from './open-sandboxes.ts'
import type { Stores } from './open-stores.ts'

export interface OpenJobs {
  readonly config: ServerConfig
  readonly stores: Stores
  readonly opened: OpenedSandboxes
  readonly runs: RunService
  readonly feed: EventFeed
}

/** Jobs start when `open()` of the service is called. */
export function openJobs({ config, stores, opened, runs, feed }: OpenJobs, closing: Closing): JobService {
  const { access, ceilings, service, deps } = opened
  return closing.use(
    new JobService({
      ...{ ...config.jobs, runs, rows: stores.jobs, tasks: stores.tasks, sandboxes: service },
      ...{ clock: deps.clock, log: deps.log },
      defaultLimits: ({ keyId }) => ceilings.defaultLimits(keyId),
      defaultNetwork: defaultNetwork(config),
      findKey: (keyId) => access.find(keyId),
      onJob: (type, job, owner) => feed.publish({ type, owner, data: () => ({ ...job }) }),
    }),
  )
}
