import { join } from 'node:path'
import { fetchArchive } from './fetch-archive.ts'
import type { NpmPin } from './npm-pins.ts'

export interface FetchNpmPackage {
  readonly dataDir: string
  readonly pin: NpmPin
  readonly signal?: AbortSignal | undefined
}

/**
 * Returns the archive of a package, which is fetched once with the host's npm: it knows the host's registry and whom to
 * trust. Throws `setup_failed` when it cannot be fetched, or is not the pinned one.
 */
export async function fetchNpmPackage({ dataDir, pin, signal }: FetchNpmPackage): Promise<string> {
  const { name, version, integrity } = pin
  const title = `${name}@${version}`
  return fetchArchive({
    parent: join(dataDir, 'tools', 'npm'),
    file: `${name}-${version}.tgz`,
    title,
    client: 'npm',
    argv: ['npm', 'pack', '--silent', '--ignore-scripts', title],
    digest: { algorithm: 'sha512', encoding: 'base64', value: integrity.replace(/^sha512-/, '') },
    registry: 'an npm registry',
    signal,
  })
}
