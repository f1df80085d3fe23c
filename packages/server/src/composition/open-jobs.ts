import type { ServerConfig } from '../config/config.ts'
import type { DeploymentService } from '../deployments/deployment-service.ts'
import type { EventFeed } from '../fleet/event-feed.ts'
import type { Closing } from '../host/closing.ts'
import type { JobLog } from '../jobs/job-log.ts'
import { JobService } from '../jobs/job-service.ts'
import type { RunService } from '../runs/run-service.ts'
import { type ScheduleCluster, ScheduleService } from '../schedules/schedule-service.ts'
import { defaultNetwork, type OpenedSandboxes } from './open-sandboxes.ts'
import type { Stores } from './open-stores.ts'

export interface OpenJobs {
  readonly config: ServerConfig
  readonly stores: Stores
  readonly opened: OpenedSandboxes
  readonly runs: RunService
  readonly feed: EventFeed
  readonly deployments: DeploymentService
}

export interface OpenedJobs {
  readonly jobs: JobService
  readonly schedules: ScheduleService
  /** Continues with what an earlier server left. Pre: sandboxes and runs are recovered. */
  start(): Promise<void>
  /** Begins nothing more. */
  stop(): void
  /** Schedules and jobs are the cluster's. Call it before `start`. */
  join(cluster: { readonly schedules: ScheduleCluster; readonly jobs: JobLog }): void
}

/** Jobs, and schedules that start them. */
export function openJobs(options: OpenJobs, closing: Closing): OpenedJobs {
  const { stores, opened, runs, deployments } = options
  const { access, service, deps } = opened
  const jobs = openJobService(options, closing)
  const schedules = closing.use(
    new ScheduleService({
      ...{ rows: stores.schedules, clock: deps.clock, log: deps.log, sandboxes: service },
      ...{ runs, jobs, deployments },
      findKey: (keyId) => access.find(keyId),
    }),
  )
  return {
    jobs,
    schedules,
    start: async () => {
      await jobs.open()
      schedules.open()
    },
    join: (cluster) => {
      schedules.join(cluster.schedules)
      jobs.join(cluster.jobs)
    },
    stop: () => {
      schedules.stop()
      jobs.stop()
    },
  }
}

function openJobService({ config, stores, opened, runs, feed }: OpenJobs, closing: Closing): JobService {
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
