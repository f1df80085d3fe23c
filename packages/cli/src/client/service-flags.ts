import { Option } from 'commander'
import type { UpdateService } from 'dormouse'
import { UsageError } from './cli-error.ts'
import { durationFlag, numberFlag } from './flags.ts'
import { omitUndefined, omitUndefinedOrNone } from './omit-undefined.ts'
import { checkpointOption } from './policy-flags.ts'

/** How a service is reached, scaled, checked and restarted: for `deploy` and `service update`. */
export interface ServiceFlags {
  readonly public?: boolean
  readonly private?: boolean
  readonly min?: number
  readonly max?: number
  readonly concurrency?: number
  readonly replicaIdle?: number
  /** False: --no-health. */
  readonly health?: string | false
  readonly healthEvery?: number
  readonly healthTimeout?: number
  readonly healthFailures?: number
  readonly restart?: 'always' | 'never'
  readonly checkpointEvery?: number
  readonly keepVersions?: number
}

export function serviceOptions(): Option[] {
  return [
    new Option('--public', 'let everybody who knows the address use it').conflicts('private'),
    new Option('--private', 'let only requests with a key use it (default)'),
    new Option('--min <number>', 'keep this many replicas awake').argParser(numberFlag('--min')),
    new Option('--max <number>', 'start at most this many replicas').argParser(numberFlag('--max')),
    new Option('--concurrency <number>', 'requests per replica before another one starts').argParser(
      numberFlag('--concurrency'),
    ),
    new Option('--replica-idle <time>', 'delete further replicas after this time without requests').argParser(
      durationFlag('--replica-idle'),
    ),
    new Option('--health <path>', 'restart the program when a GET of this path fails several times'),
    new Option('--no-health', 'do not check the program'),
    new Option('--health-every <time>', 'how often it is checked while it is awake').argParser(
      durationFlag('--health-every'),
    ),
    new Option('--health-timeout <time>', 'how long a check waits for the answer').argParser(
      durationFlag('--health-timeout'),
    ),
    new Option(
      '--health-failures <number>',
      'restart the program after this many failed checks in a row',
    ).argParser(numberFlag('--health-failures')),
    new Option('--restart <when>', 'whether a program that ends starts again').choices(['always', 'never']),
    checkpointOption(),
    new Option('--keep-versions <number>', 'older versions to keep for a rollback').argParser(
      numberFlag('--keep-versions'),
    ),
  ]
}

/** The fields of the API. */
export function toSettings(flags: ServiceFlags): UpdateService {
  const { min, max, concurrency, replicaIdle, restart, keepVersions, checkpointEvery } = flags
  const isPublic = flags.public === true ? true : flags.private === true ? false : undefined
  return omitUndefined({
    public: isPublic,
    replicas: omitUndefinedOrNone({ min, max, concurrency, idleMs: replicaIdle }),
    health: healthOf(flags),
    restart,
    checkpointEveryMs: checkpointEvery,
    keepVersions,
  })
}

function healthOf({
  health,
  healthEvery,
  healthTimeout,
  healthFailures,
}: ServiceFlags): UpdateService['health'] {
  const checks = { intervalMs: healthEvery, timeoutMs: healthTimeout, failures: healthFailures }
  if (health !== false) return omitUndefinedOrNone({ path: health, ...checks })
  if (omitUndefinedOrNone(checks) === undefined) return null
  throw new UsageError('--no-health contradicts the other flags of health checks')
}
