import type { Material, Materials } from '@dormouse/contracts'
import type { ServerConfig } from '../config/config.ts'
import { configuredRegistries } from '../network/registries.ts'
import { dropSnapshot } from '../sandbox/drop-snapshot.ts'
import type { SandboxRegistry } from '../sandbox/sandbox-registry.ts'
import type { Database } from '../store/database.ts'
import type { NetworkPolicy } from '../store/sandbox-rows.ts'
import type { SnapshotRows } from '../store/snapshot-rows.ts'
import type { BuildPrograms } from './build-scripts.ts'
import { TemplateBuilds } from './template-builds.ts'
import { TemplateRows } from './template-rows.ts'
import { type HostTemplates, TemplateService } from './template-service.ts'

/** What depends on the engine. */
export interface BuilderTools {
  readonly host: HostTemplates
  readonly programs: BuildPrograms
  readonly parseMaterials: (listing: string, base: readonly Material[]) => Materials
}

export interface OpenTemplates {
  readonly db: Database
  readonly registry: SandboxRegistry
  readonly builder: BuilderTools
  readonly config: ServerConfig
}

export function openTemplates({ db, registry, builder, config }: OpenTemplates): TemplateService {
  const { parts } = registry
  const { snapshots, clock, log } = parts
  const now = () => clock.wallMs()
  const { atOnce, timeoutMs, ...limits } = config.builds
  const { host, programs, parseMaterials } = builder
  const builds = new TemplateBuilds({
    sandboxes: registry,
    settings: { limits, atOnce, timeoutMs, network: registriesOnly(config) },
    programs,
    parseMaterials,
  })
  return new TemplateService({
    rows: new TemplateRows(db),
    snapshots,
    host,
    builds,
    isNeeded: (name, owner) => isTemplateNeeded(registry, snapshots, name, owner),
    dropSnapshot: (id) => dropSnapshot(parts, id),
    now,
    log,
  })
}

/** Where Debian's and Python's packages come from when nobody has chosen a mirror. */
const PUBLIC_REGISTRIES = [
  'deb.debian.org:80,443',
  'security.debian.org:80,443',
  'pypi.org:443',
  'files.pythonhosted.org:443',
]

/** What a build may reach whose description does not say. */
function registriesOnly({ network }: ServerConfig): NetworkPolicy {
  const chosen = configuredRegistries(network).map(({ host, port }) =>
    host.includes(':') && !host.startsWith('[') ? `[${host}]:${port}` : `${host}:${port}`,
  )
  return { mode: 'allow', allow: [...new Set([...chosen, ...PUBLIC_REGISTRIES])] }
}

function isTemplateNeeded(
  registry: SandboxRegistry,
  snapshots: SnapshotRows,
  name: string,
  owner: string | undefined,
): boolean {
  for (const { body } of registry.all()) {
    const { row } = body
    // What was made from a snapshot and has been saved since stands on its own.
    if (row.template !== name || (owner !== undefined && row.owner !== owner)) continue
    if (owner === undefined || row.head === undefined) return true
  }
  return owner === undefined && snapshots.usesTemplate(name)
}
