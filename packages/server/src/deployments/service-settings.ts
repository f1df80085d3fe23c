import type { updateServiceSchema } from '@dormouse/contracts/http'
import type { z } from 'zod'
import type { ServiceSettings } from './service-rows.ts'

/** Of a service that was deployed without any. */
export const DEFAULT_SETTINGS: ServiceSettings = {
  public: false,
  replicas: { min: 0, max: 1, concurrency: 20, idleMs: 60_000 },
  health: undefined,
  restart: 'always',
  keepVersions: 10,
}

/** Settings with a change. Absent fields stay; `max` is at least `min`. */
export function mergeSettings(
  settings: ServiceSettings,
  change: z.output<typeof updateServiceSchema>,
): ServiceSettings {
  const replicas = { ...settings.replicas, ...change.replicas }
  const { health = settings.health } = change
  const max = Math.max(replicas.max, replicas.min, 1)
  return { ...settings, ...change, health, replicas: { ...replicas, max } } as ServiceSettings
}
