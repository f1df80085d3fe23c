import { runCommand } from '../host/run-command.ts'
import { withoutCredentials } from './registry-url.ts'

/** Where the host installs Python packages from, as far as a sandbox can use it. */
export interface PipIndexes {
  readonly indexUrl?: string
  readonly extraIndexUrls: readonly string[]
  readonly trustedHosts: readonly string[]
}

/** Later sections override earlier ones, as for `pip install`. */
const SECTIONS = ['global', 'install', ':env:']

/** Asks pip, which knows its own files and variables. A host without pip has no such settings. */
export async function readPipIndexes(signal: AbortSignal | undefined): Promise<PipIndexes> {
  for (const argv of [['python3', '-m', 'pip'] as const, ['pip'] as const]) {
    const { exitCode, stdout } = await runCommand({ argv: [...argv, 'config', 'list'], signal })
    if (exitCode === 0) return parsePipConfig(stdout)
  }
  return parsePipConfig('')
}

/**
 * Parses lines like `global.index-url='https://example.com/simple'`. A value of several lines contains them as `\n`.
 */
export function parsePipConfig(listing: string): PipIndexes {
  const lines = listing.split('\n')
  const words = (name: string) => {
    const values = SECTIONS.flatMap((section) => {
      const start = `${section}.${name}=`
      return lines.filter((line) => line.startsWith(start)).map((line) => line.slice(start.length))
    })
    return (values.at(-1) ?? '')
      .replaceAll(/^['"]|['"]$/g, '')
      .split(/\s+|\\n/)
      .filter((word) => word !== '')
  }
  const [indexUrl] = words('index-url').flatMap(withoutCredentials)
  return {
    ...(indexUrl !== undefined && { indexUrl }),
    extraIndexUrls: words('extra-index-url').flatMap(withoutCredentials),
    trustedHosts: words('trusted-host').filter((host) => /^[\w.[\]:-]+$/.test(host)),
  }
}

/** Returns the content of /etc/pip.conf for a template. */
export function writePipConf({ indexUrl, extraIndexUrls, trustedHosts }: PipIndexes): string {
  const list = (name: string, values: readonly string[]) =>
    values.length === 0 ? [] : [[`${name} =`, ...values].join('\n    ')]
  return [
    '[global]',
    // The sandbox is the environment: pip's warnings about the system and about root mean nothing here.
    'break-system-packages = true',
    'root-user-action = ignore',
    'disable-pip-version-check = true',
    ...(indexUrl === undefined ? [] : [`index-url = ${indexUrl}`]),
    ...list('extra-index-url', extraIndexUrls),
    ...list('trusted-host', trustedHosts),
    '',
  ].join('\n')
}
