import { readFile } from 'node:fs/promises'
import { homedir } from 'node:os'
import { join } from 'node:path'

/** Where the host installs Python packages from, as far as a sandbox can use it too. */
export interface PipIndexes {
  readonly indexUrl?: string
  readonly extraIndexUrls: readonly string[]
  readonly trustedHosts: readonly string[]
}

type Settings = Map<string, string>

/** pip's order: later files, and then the environment, replace what was said before. */
export async function readPipIndexes(env: Readonly<Record<string, string | undefined>>): Promise<PipIndexes> {
  const home = homedir()
  const files =
    env['PIP_CONFIG_FILE'] === '/dev/null'
      ? []
      : [
          '/etc/xdg/pip/pip.conf',
          '/etc/pip.conf',
          join(home, '.pip/pip.conf'),
          join(env['XDG_CONFIG_HOME'] ?? join(home, '.config'), 'pip/pip.conf'),
          ...(env['PIP_CONFIG_FILE'] === undefined ? [] : [env['PIP_CONFIG_FILE']]),
        ]
  const settings: Settings = new Map()
  for (const file of files) readSettings(await readFile(file, 'utf8').catch(() => ''), settings)
  for (const name of ['index-url', 'extra-index-url', 'trusted-host']) {
    const value = env[`PIP_${name.toUpperCase().replaceAll('-', '_')}`]
    if (value !== undefined) settings.set(name, value)
  }
  return selectIndexes(settings)
}

/** The ini of Python's configparser, as much as pip uses: sections, `key = value` or `key: value`, indented lines that go on. */
export function readSettings(text: string, settings: Settings = new Map()): Settings {
  let section = ''
  let key = ''
  for (const line of text.split('\n')) {
    const content = line.trim()
    if (content === '' || content.startsWith('#') || content.startsWith(';')) continue
    const heading = /^\[(?<name>[^\]]+)\]$/.exec(content)?.groups?.['name']
    if (heading !== undefined) {
      section = heading
      key = ''
      continue
    }
    if (section !== 'global' && section !== 'install') continue
    if (/^\s/.test(line) && key !== '') {
      settings.set(key, `${settings.get(key) ?? ''} ${content}`.trim())
      continue
    }
    const pair = /^(?<key>[^=:]+?)\s*[=:]\s*(?<value>.*)$/.exec(content)?.groups
    if (pair === undefined) continue
    key = (pair['key'] ?? '').toLowerCase().replaceAll('_', '-')
    settings.set(key, pair['value'] ?? '')
  }
  return settings
}

export function selectIndexes(settings: Settings): PipIndexes {
  const words = (name: string) => (settings.get(name) ?? '').split(/\s+/).filter((word) => word !== '')
  const [indexUrl] = words('index-url').flatMap(withoutCredentials)
  return {
    ...(indexUrl !== undefined && { indexUrl }),
    extraIndexUrls: words('extra-index-url').flatMap(withoutCredentials),
    trustedHosts: words('trusted-host').filter((host) => /^[\w.[\]:-]+$/.test(host)),
  }
}

/** What a sandbox can read is no place for the host's passwords, and its directories mean nothing inside. */
function withoutCredentials(text: string): string[] {
  if (!URL.canParse(text)) return []
  const url = new URL(text)
  if (url.protocol !== 'http:' && url.protocol !== 'https:') return []
  url.username = ''
  url.password = ''
  return [url.href]
}

/** The system's pip.conf of a template. */
export function writePipConf({ indexUrl, extraIndexUrls, trustedHosts }: PipIndexes): string {
  const list = (name: string, values: readonly string[]) =>
    values.length === 0 ? [] : [[`${name} =`, ...values].join('\n    ')]
  return [
    '[global]',
    'break-system-packages = true',
    ...(indexUrl === undefined ? [] : [`index-url = ${indexUrl}`]),
    ...list('extra-index-url', extraIndexUrls),
    ...list('trusted-host', trustedHosts),
    '',
  ].join('\n')
}
