import type { Log } from '../log.ts'
import type { SandboxCalls } from '../sandbox/sandbox-service.ts'
import type { DeployServices } from './deploy.ts'
import { ifThere } from './if-there.ts'
import type { LiveService } from './live-service.ts'
import type { VersionRow } from './service-rows.ts'

interface VersionOwners extends Pick<DeployServices, 'templates'> {
  readonly sandboxes: Pick<SandboxCalls, 'deleteSnapshot'>
  readonly log: Log
}

/** Removes versions that are too old for a rollback. A failure costs disk space until the next deployment. */
export async function dropOldVersions(owners: VersionOwners, service: LiveService): Promise<void> {
  const { row, versions } = service
  const old = versions.filter(({ version }) => version !== row.current).slice(row.settings.keepVersions)
  for (const version of old)
    await dropVersion(owners, service, version).catch((err: unknown) =>
      owners.log.warn({ service: row.id, version: version.version, err }, 'an old version is still there'),
    )
}

/** Removes a version with its replicas, its ready snapshot and the template that was built for it. */
export async function dropVersion(
  { sandboxes, templates }: VersionOwners,
  service: LiveService,
  version: VersionRow,
): Promise<void> {
  const caller = { keyId: service.row.owner, isAdmin: false }
  for (const replica of service.replicas)
    if (replica.version === version.version) await service.remove(replica)
  if (version.ready !== undefined)
    await ifThere(sandboxes.deleteSnapshot(version.ready.snapshotId, caller), 'not_found')
  if (version.builtTemplate !== undefined)
    await ifThere(templates.delete(version.builtTemplate, caller), 'template_not_found')
  service.forgetVersion(version)
}
