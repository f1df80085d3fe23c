import type { ServiceView } from './deployments.ts'
import type { LiveService } from './live-service.ts'

/** A service as the API shows it. */
export function viewService(service: LiveService): ServiceView {
  const { row, versions, current } = service
  const { public: isPublic, replicas, health, restart, keepVersions, checkpointEveryMs = 0 } = row.settings
  return {
    id: row.id,
    name: row.name,
    createdAt: new Date(row.createdAt).toISOString(),
    version: row.current,
    port: (current ?? versions[0])?.plan.port ?? 0,
    public: isPublic,
    ...{ health, restart, keepVersions, checkpointEveryMs },
    replicas: { ...replicas, items: service.replicas.map((replica) => replica.view()) },
    versions: versions.map(({ version, state, createdAt, plan, builtTemplate, error }) => ({
      ...{ version, state, isCurrent: version === row.current, error },
      createdAt: new Date(createdAt).toISOString(),
      isolation: plan.isolation,
      template: builtTemplate,
    })),
  }
}
