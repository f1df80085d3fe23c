import type { updateServiceSchema } from '@dormouse/contracts/http'
import type { z } from 'zod'
import type { ServiceSettings } from './service-rows.ts'

/** What a deployment or an update says about the settings. Absent fields stay as they are. */
export type SettingsChange = z.output<typeof updateServiceSchema>

/** Of a service that was deployed without any. */
export const DEFAULT_SETTINGS: ServiceSettings = {
  public: false,
  replicas: { min: 0, max: 1, concurrency: 20, idleMs: 60_000 },
  health: undefined,
  restart: 'always',
  keepVersions: 10,
}

/** Settings with a change. `max` is at least `min`. */
export function mergeSettings(settings: ServiceSettings, change: SettingsChange): ServiceSettings {
  const { public: isPublic = settings.public, restart = settings.restart } = change
  const { keepVersions = settings.keepVersions, checkpointEveryMs = settings.checkpointEveryMs } = change
  const replicas = { ...settings.replicas, ...change.replicas }
  const max = Math.max(replicas.max, replicas.min, 1)
  return {
    ...{ public: isPublic, restart, keepVersions, replicas: { ...replicas, max } },
    health: mergeHealth(settings.health, change.health),
    ...(checkpointEveryMs !== undefined && { checkpointEveryMs }),
  }
}

function mergeHealth(
  health: ServiceSettings['health'],
  change: SettingsChange['health'],
): ServiceSettings['health'] {
  if (change === undefined) return health
  return change === null ? undefined : { ...health, ...change }
}
