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
/** Where pip goes that nobody told otherwise. Names of the public internet, which some hosts resolve to a mirror. */
const PIP_WITHOUT_SETTINGS = ['https://pypi.org/', 'https://files.pythonhosted.org/']
const PORTS: Readonly<Record<string, number>> = { 'http:': 80, 'https:': 443 }
export const APT_SOURCE = /^\s*(?:deb|URIs:|\s+(?=https?:))/
export const PIP_INDEX = /^\s*(?:index-url|extra-index-url|(?=https?:))/

/** Where packages come from: what the configuration names, or what the host itself uses. */
export function configuredRegistries({
  registries,
  pipIndexes,
}: Pick<NetworkConfig, 'registries' | 'pipIndexes'>): Registry[] {
  return registries === undefined ? hostRegistries(pipIndexes) : registries.flatMap(parseRegistry)
}

/**
 * Where this host installs packages from: what the operator chose for it. Those names are reachable from sandboxes even where they lead to a
 * mirror with a private address. Templates have the same sources, but are not asked: whoever may build one would choose what is reachable.
 */
export function hostRegistries(pipIndexes: readonly string[]): Registry[] {
  const indexes = [...PIP_FILES.flatMap((file) => urlsIn(file, PIP_INDEX)), ...pipIndexes]
  const urls = [
    ...aptFiles().flatMap((file) => urlsIn(file, APT_SOURCE)),
    ...(indexes.length === 0 ? PIP_WITHOUT_SETTINGS : indexes),
  ]
  return distinct(urls.flatMap((url) => registryOf(url) ?? []))
}

/** `example.com`, `example.com:8080` or a URL; without a port both that packages come from. */
export function parseRegistry(text: string): Registry[] {
  const url = registryOf(text)
  if (url !== undefined) return [url]
  const [host = '', port] = text.toLowerCase().split(':')
  if (port !== undefined) return [{ host, port: Number(port) }]
  return Object.values(PORTS).map((known) => ({ host, port: known }))
}

/** Lines that do not begin like a source are comments, keys and the like. */
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
