import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'
import type { NetworkConfig } from '../config/config.ts'

export interface Registry {
  readonly host: string
  readonly port: number
}

const APT_DIRECTORY = '/etc/apt'
const PIP_FILES = [
  '/etc/pip.conf',
  '/etc/xdg/pip/pip.conf',
  join(homedir(), '.pip/pip.conf'),
  join(homedir(), '.config/pip/pip.conf'),
]
const NPM_FILES = ['/etc/npmrc', '/usr/etc/npmrc', '/usr/local/etc/npmrc', join(homedir(), '.npmrc')]
/** pip's defaults. Some hosts resolve these public names to a mirror. */
const PIP_DEFAULTS = ['https://pypi.org/', 'https://files.pythonhosted.org/']
/** npm's default, for the same reason. */
const NPM_DEFAULTS = ['https://registry.npmjs.org/']
const PORTS: Readonly<Record<string, number>> = { 'http:': 80, 'https:': 443 }
export const APT_SOURCE = /^\s*(?:deb|URIs:|\s+(?=https?:))/
export const PIP_INDEX = /^\s*(?:index-url|extra-index-url|(?=https?:))/
export const NPM_REGISTRY = /^\s*(?:@[^\s:]+:)?registry\s*=/

type NamedRegistries = Pick<NetworkConfig, 'pipIndexes' | 'npmRegistries'>

/** The registries that the configuration names, or those that the host itself uses. */
export function configuredRegistries(
  config: NamedRegistries & Pick<NetworkConfig, 'registries'>,
): Registry[] {
  return config.registries === undefined ? hostRegistries(config) : config.registries.flatMap(parseRegistry)
}

/**
 * The registries that this host installs packages from. Sandboxes may reach these names even where they resolve to a
 * mirror with a private address. Templates list registries too, but they do not count: otherwise anyone who may build a
 * template could open private addresses.
 */
export function hostRegistries({ pipIndexes, npmRegistries }: NamedRegistries): Registry[] {
  const indexes = [...PIP_FILES.flatMap((file) => urlsIn(file, PIP_INDEX)), ...pipIndexes]
  const npm = [...NPM_FILES.flatMap((file) => urlsIn(file, NPM_REGISTRY)), ...npmRegistries]
  const urls = [
    ...aptFiles().flatMap((file) => urlsIn(file, APT_SOURCE)),
    ...(indexes.length === 0 ? PIP_DEFAULTS : indexes),
    ...(npm.length === 0 ? NPM_DEFAULTS : npm),
  ]
  return distinct(urls.flatMap((url) => registryOf(url) ?? []))
}

/** Reads `example.com`, `example.com:8080` or a URL. Without a port: both 80 and 443. */
export function parseRegistry(text: string): Registry[] {
  const url = registryOf(text)
  if (url !== undefined) return [url]
  const [host = '', port] = text.toLowerCase().split(':')
  if (port !== undefined) return [{ host, port: Number(port) }]
  return Object.values(PORTS).map((known) => ({ host, port: known }))
}

/** The URLs in the lines that match `source`; other lines are comments, keys and the like. */
export function urlsOf(text: string, source: RegExp): string[] {
  return text
    .split('\n')
    .filter((line) => source.test(line))
    .flatMap((line) => line.match(/https?:\/\/[^\s"']+/g) ?? [])
}

function aptFiles(): string[] {
  const parts = join(APT_DIRECTORY, 'sources.list.d')
  const more = existsSync(parts) ? readdirSync(parts).filter((name) => /\.(?:list|sources)$/.test(name)) : []
  return [join(APT_DIRECTORY, 'sources.list'), ...more.map((name) => join(parts, name))]
}

function urlsIn(file: string, source: RegExp): string[] {
  try {
    return urlsOf(readFileSync(file, 'utf8'), source)
  } catch {
    // Most of these files are missing on most hosts.
    return []
  }
}

function registryOf(text: string): Registry | undefined {
  if (!URL.canParse(text)) return undefined
  const { protocol, hostname, port } = new URL(text)
  const byDefault = PORTS[protocol]
  return byDefault === undefined || hostname === ''
    ? undefined
    : { host: hostname.toLowerCase(), port: port === '' ? byDefault : Number(port) }
}

function distinct(registries: readonly Registry[]): Registry[] {
  return [...new Map(registries.map((one) => [`${one.host}:${one.port}`, one])).values()]
}
