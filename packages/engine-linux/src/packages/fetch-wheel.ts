import { join } from 'node:path'
import { fetchArchive } from './fetch-archive.ts'
import type { WheelPin } from './wheel-pins.ts'

export interface FetchWheel {
  readonly dataDir: string
  readonly pin: WheelPin
  readonly signal?: AbortSignal | undefined
}

/** Of the template, not of the host: pip looks for files that this Python can load. */
const PYTHON = '3.14'

/**
 * Returns a Python wheel, which is fetched once with the host's pip: it knows the host's indexes and whom to trust.
 * Throws `setup_failed` when it cannot be fetched, or is not the pinned one.
 */
export async function fetchWheel({ dataDir, pin, signal }: FetchWheel): Promise<string> {
  const { name, version, file, platform, sha256 } = pin
  const title = `${name}==${version}`
  return fetchArchive({
    parent: join(dataDir, 'tools', 'pip'),
    file,
    title,
    client: 'pip',
    argv: [
      ...(['python3', '-m', 'pip', 'download', '--quiet', '--disable-pip-version-check'] as const),
      // A host without a network has the next template to build.
      ...['--retries', '1', '--no-cache-dir', '--no-deps', '--only-binary', ':all:'],
      ...['--implementation', 'cp', '--python-version', PYTHON, '--abi', 'abi3', '--abi', 'none'],
      ...['--platform', platform, title],
    ],
    digest: { algorithm: 'sha256', encoding: 'hex', value: sha256 },
    registry: 'an index of Python packages',
    signal,
  })
}
