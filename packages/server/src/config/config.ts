import { isAbsolute, join, resolve } from 'node:path'
import { DormouseError } from '@dormouse/contracts'
import { refuseInsecureBind } from './bind.ts'
import type { Env } from './env.ts'
import { type HostFacts, readHostFacts } from './host-facts.ts'
import { completeSettings, type Settings } from './settings.ts'
import { envLayer, flagLayer, mergeLayers, readFileLayer } from './settings-layers.ts'

const DEFAULT_DATA_DIR = '/var/lib/dormouse'

export interface TlsFiles {
  readonly certFile: string
  readonly keyFile: string
}

export type ScrubConfig = Settings['scrub']
export type Prices = Settings['prices']

/** The settings of the network, and what other programs' environment variables say about it. */
export interface NetworkConfig extends Omit<Settings['network'], 'proxy' | 'proxyResolves'> {
  /** Package indexes that the environment names for pip. */
  readonly pipIndexes: readonly string[]
  /** The registry that the environment names for npm. */
  readonly npmRegistries: readonly string[]
  readonly proxy: ProxyConfig | undefined
}

/** The proxy through which the host reaches the internet. */
export interface ProxyConfig {
  readonly url: string
  /** Names, addresses and ranges that are reached without the proxy. */
  readonly noProxy: readonly string[]
  /** Whether the proxy resolves names. Undefined: only where no DNS server of the host answers. */
  readonly resolves?: boolean
}

/** Everything the server is configured with. config/settings/ describes each setting. */
export interface ServerConfig extends Omit<Settings, 'tls' | 'network'> {
  readonly dataDir: string
  readonly tls: TlsFiles | undefined
  readonly network: NetworkConfig
}

export interface LoadConfig {
  readonly env: Env
  /** Flags of `dormouse up`, such as `{ '--port': '80' }`. */
  readonly flags?: Readonly<Record<string, string>>
  /** The value of `--data`; without it DORMOUSE_DATA, else the default directory. */
  readonly dataDir?: string | undefined
  readonly hostFacts?: HostFacts
}

/** Reads the defaults, `config.json` in the data directory, the environment and the flags; later ones win. */
export function loadConfig({ env, flags = {}, dataDir: given, hostFacts }: LoadConfig): ServerConfig {
  const dataDir = parseDataDir(given ?? env.DORMOUSE_DATA)
  const input = mergeLayers([readFileLayer(join(dataDir, 'config.json')), envLayer(env), flagLayer(flags)])
  const settings = completeSettings(input, hostFacts ?? readHostFacts(dataDir))
  const config: ServerConfig = {
    ...settings,
    dataDir,
    host: toAddress(settings.host),
    tls: completeTls(settings.tls),
    ssh: { ...settings.ssh, host: toAddress(settings.ssh.host) },
    network: completeNetwork(settings.network, env),
  }
  refuseInsecureBind(config)
  refuseForbiddenDefault(config)
  return config
}

function refuseForbiddenDefault({ isolation, processIsolation }: ServerConfig): void {
  if (isolation !== 'process' || processIsolation === 'allowed') return
  throw new DormouseError('invalid_argument', 'isolation: `process` is forbidden, and also the default', {
    hint: 'Add --isolation microvm.',
    details: { field: 'isolation' },
  })
}

/** A hosts file could map `localhost` to an address that is reachable from outside. */
function toAddress(host: string): string {
  return host === 'localhost' ? '127.0.0.1' : host
}

function parseDataDir(value: string | undefined): string {
  if (value === undefined || value === '') return DEFAULT_DATA_DIR
  if (isAbsolute(value)) return resolve(value)
  // A relative path would name another directory whenever the server starts in another directory.
  throw new DormouseError('invalid_argument', `DORMOUSE_DATA must be an absolute path (saw "${value}")`, {
    details: { field: 'DORMOUSE_DATA' },
  })
}

function completeNetwork({ proxy, proxyResolves, ...network }: Settings['network'], env: Env): NetworkConfig {
  const indexes = `${env.PIP_INDEX_URL ?? ''} ${env.PIP_EXTRA_INDEX_URL ?? ''}`
  return {
    ...network,
    pipIndexes: indexes.split(/\s+/).filter((index) => index !== ''),
    npmRegistries: [env['npm_config_registry'] ?? env['NPM_CONFIG_REGISTRY'] ?? ''].filter(
      (url) => url !== '',
    ),
    proxy: findProxy({ proxy, proxyResolves }, env),
  }
}

/** In order of preference: sandbox traffic is tunnelled, as HTTPS is. */
const PROXY_VARIABLES = ['https_proxy', 'HTTPS_PROXY', 'http_proxy', 'HTTP_PROXY'] as const

function findProxy(
  { proxy, proxyResolves }: Pick<Settings['network'], 'proxy' | 'proxyResolves'>,
  env: Env,
): ProxyConfig | undefined {
  if (proxy === 'none') return undefined
  // By convention, an empty variable means no proxy.
  const url =
    proxy ?? PROXY_VARIABLES.map((name) => env[name]).find((value) => value !== undefined && value !== '')
  if (url === undefined) return undefined
  const noProxy = (env['no_proxy'] ?? env['NO_PROXY'] ?? '').split(/[\s,]+/).filter((word) => word !== '')
  return {
    // Other programs accept a proxy without a scheme.
    url: url.includes('://') ? url : `http://${url}`,
    noProxy,
    ...(proxyResolves !== undefined && { resolves: proxyResolves }),
  }
}

function completeTls({ certFile, keyFile }: Settings['tls']): TlsFiles | undefined {
  if (certFile !== undefined && keyFile !== undefined) return { certFile, keyFile }
  if (certFile === undefined && keyFile === undefined) return undefined
  const [missing, flag] =
    certFile === undefined ? ['certificate', '--tls-cert'] : ['private key', '--tls-key']
  throw new DormouseError(
    'invalid_argument',
    `TLS needs a certificate and its private key; the ${missing} is missing`,
    {
      hint: `Add ${flag}.`,
      details: { field: certFile === undefined ? 'tls.certFile' : 'tls.keyFile' },
    },
  )
}
