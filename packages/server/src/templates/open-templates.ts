import type { Material, Materials } from '@dormouse/contracts'
import type { ServerConfig } from '../config/config.ts'
import type { Log } from '../log.ts'
import { configuredRegistries } from '../network/registries.ts'
import type { NetworkPolicy, SandboxLimits, SandboxRow } from '../store/sandbox-rows.ts'
import type { SnapshotRows } from '../store/snapshot-rows.ts'
import { buildLimits } from './build-limits.ts'
import type { BuildSandboxes } from './build-sandbox.ts'
import type { BuildPrograms } from './build-scripts.ts'
import { type ArchiveName, BUILT_IN_OWNER, type Library, type LibraryName } from './built-in-descriptions.ts'
import { TemplateBuilds, type TemplateBuildsOptions } from './template-builds.ts'
import type { TemplateCatalog } from './template-catalog.ts'
import { type HostTemplates, TemplateService } from './template-service.ts'

/** The parts that depend on the engine. */
export interface BuilderTools {
  readonly host: HostTemplates
  readonly programs: BuildPrograms
  readonly parseMaterials: (listing: string, base: readonly Material[]) => Materials
  /** The parts of built-in templates that the host fetches. */
  readonly versionOf: (name: ArchiveName) => string
  readonly fetchArchive: (name: ArchiveName, signal: AbortSignal) => Promise<string>
  /** Undefined where no version of the library is known to fit the processor. */
  readonly libraryVersion: (name: LibraryName) => string | undefined
  readonly fetchLibrary: (name: LibraryName, signal: AbortSignal) => Promise<Library>
}

export interface OpenTemplates
  extends Pick<TemplateBuildsOptions, 'requireQuota' | 'checkNetwork' | 'dropSnapshot'> {
  readonly recipes: TemplateBuildsOptions['recipes']
  readonly catalog: TemplateCatalog
  readonly snapshots: SnapshotRows
  readonly sandboxes: BuildSandboxes & { all(): Iterable<{ readonly row: SandboxRow }> }
  readonly builder: BuilderTools
  /** Sandboxes of this owner on other hosts of the cluster. */
  readonly elsewhere: (owner: string) => Iterable<SandboxRow>
  /** Of sandboxes of a key. */
  readonly defaultLimits: (keyId: string) => SandboxLimits
  readonly config: ServerConfig
  readonly now: () => number
  readonly log: Log
}

export function openTemplates(options: OpenTemplates): TemplateService {
  const { catalog, snapshots, sandboxes, builder, config, now, log } = options
  const { requireQuota, checkNetwork, dropSnapshot, recipes, elsewhere, defaultLimits } = options
  const { atOnce, timeoutMs, builtIn: _, ...limits } = config.builds
  const { host, programs, parseMaterials } = builder
  const builds = new TemplateBuilds({
    ...{ sandboxes, requireQuota, checkNetwork, dropSnapshot, programs, parseMaterials, recipes },
    settings: {
      ...{ atOnce, timeoutMs, network: registriesOnly(config) },
      limitsOf: (keyId) => buildLimits(limits, defaultLimits(keyId)),
    },
  })
  return new TemplateService({
    ...{ catalog, snapshots, host, builds, dropSnapshot, now, log },
    isNeeded: (name, owner) => {
      // Every host builds the built-in templates itself.
      const isOfHost = owner === undefined || owner === BUILT_IN_OWNER
      const others = isOfHost ? [] : [...elsewhere(owner)].map((row) => ({ row }))
      return isTemplateNeeded([...sandboxes.all(), ...others], snapshots, name, owner)
    },
  })
}

/** The default registries of Debian and Python packages. */
const PUBLIC_REGISTRIES = [
  'deb.debian.org:80,443',
  'security.debian.org:80,443',
  'pypi.org:443',
  'files.pythonhosted.org:443',
]

/** The default network policy of builds. */
function registriesOnly({ network }: ServerConfig): NetworkPolicy {
  const chosen = configuredRegistries(network).map(({ host, port }) =>
    host.includes(':') && !host.startsWith('[') ? `[${host}]:${port}` : `${host}:${port}`,
  )
  return { mode: 'allow', allow: [...new Set([...chosen, ...PUBLIC_REGISTRIES])] }
}

function isTemplateNeeded(
  sandboxes: Iterable<{ readonly row: SandboxRow }>,
  snapshots: SnapshotRows,
  name: string,
  owner: string | undefined,
): boolean {
  for (const { row } of sandboxes) {
    // A sandbox that was made from a snapshot and saved since does not need the template.
    if (row.template !== name || (owner !== undefined && row.owner !== owner)) continue
    if (owner === undefined || row.head === undefined) return true
  }
  return owner === undefined && snapshots.usesTemplate(name)
}
