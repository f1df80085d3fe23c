import { Option } from 'commander'
import type { UpdateService } from 'dormouse'
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
  readonly health?: string
  readonly healthEvery?: number
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
    new Option('--health-every <time>', 'how often it is checked while it is awake').argParser(
      durationFlag('--health-every'),
    ),
    new Option('--restart <when>', 'whether a program that ends starts again').choices(['always', 'never']),
    checkpointOption(),
    new Option('--keep-versions <number>', 'older versions to keep for a rollback').argParser(
      numberFlag('--keep-versions'),
    ),
  ]
}

/** The fields of the API. */
export function toSettings(flags: ServiceFlags): UpdateService {
  const { min, max, concurrency, replicaIdle, health, healthEvery, restart, keepVersions, checkpointEvery } =
    flags
  const isPublic = flags.public === true ? true : flags.private === true ? false : undefined
  return omitUndefined({
    public: isPublic,
    replicas: omitUndefinedOrNone({ min, max, concurrency, idleMs: replicaIdle }),
    health: omitUndefinedOrNone({ path: health, intervalMs: healthEvery }),
    restart,
    checkpointEveryMs: checkpointEvery,
    keepVersions,
  })
}
