import { isAbsolute, join, resolve } from 'node:path'
import { DormouseError } from '@dormouse/contracts'
import { refuseInsecureBind } from './bind.ts'
import { envLayer, flagLayer, mergeLayers, readConfigFile } from './config-layers.ts'
import type { ConfigInput, LOG_LEVELS } from './config-schema.ts'
import { defaultConfig, type HostFacts, readHostFacts } from './defaults.ts'
import type { Env } from './env.ts'

const DEFAULT_DATA_DIR = '/var/lib/dormouse'

export interface TlsFiles {
  readonly certFile: string
  readonly keyFile: string
}

export interface JournalRetention {
  /** Of each sandbox, the newest. */
  readonly keepRuns: number
  readonly keepDays: number
  /** Of one run, and of all runs of a sandbox together. */
  readonly runBytes: number
  readonly sandboxBytes: number
}

export interface ScrubConfig {
  readonly periodDays: number
  readonly bytesPerSecond: number
  readonly delayMs: number
}

/** What a sandbox that builds a template may use, and for how long. */
export interface BuildsConfig {
  readonly atOnce: number
  readonly timeoutMs: number
  readonly memoryBytes: number
  readonly cpus: number
  readonly pids: number
  readonly diskBytes: number
  readonly files: number
}

/** Examples to compare with, nobody's real prices. */
export interface Prices {
  readonly currency: string
  readonly runningCpuSecond: number
  readonly memoryGbSecond: number
  readonly storedGbHour: number
  readonly alwaysOnCpuSecond: number
  readonly alwaysOnMemoryGbSecond: number
}

/** Beside HTTP, and encrypted by itself: it may listen anywhere, if that is said. */
export interface SshConfig {
  readonly enabled: boolean
  readonly host: string
  readonly port: number
}

export interface SandboxCeilings {
  readonly memoryBytes: number
  readonly cpus: number
  readonly pids: number
  readonly diskBytes: number
  readonly files: number
}

/** What leaves sandboxes. */
export interface NetworkConfig {
  readonly defaultMode: 'none' | 'public'
  /** Those of the host, if none are named. */
  readonly resolvers: readonly string[] | undefined
  /** Private ranges that policies may name. */
  readonly reachable: readonly string[]
  /** Of this host, though none of its interfaces has them. */
  readonly ownAddresses: readonly string[]
  /** Where packages come from; undefined: find out how the host does it. */
  readonly registries: readonly string[] | undefined
  /** Indexes that pip is told by the environment. */
  readonly pipIndexes: readonly string[]
  readonly proxy: ProxyConfig | undefined
  readonly maxConnections: number
  readonly maxConnectionsTotal: number
  /** Roots that servers which get secrets may have besides those of the host, PEM. */
  readonly caFile: string | undefined
}

/** The host's way out, as other programs read it from the environment. */
export interface ProxyConfig {
  readonly url: string
  /** Names, addresses and ranges that are reached without it. */
  readonly noProxy: readonly string[]
  /** Whether names are left to it. Absent: only where no name server of the host answers. */
  readonly resolves?: boolean
}

/** What the server runs with. docs/configuration.md says what each means. */
export interface ServerConfig {
  readonly dataDir: string
  readonly host: string
  readonly port: number
  readonly tls: TlsFiles | undefined
  readonly allowInsecureBind: boolean
  readonly domain: string | undefined
  /** Pages of these origins may call the API from a browser. */
  readonly cors: { readonly origins: readonly string[] }
  readonly ssh: SshConfig
  readonly idleTimeoutMs: number
  readonly storeAfterMs: number
  readonly idleConnectionMs: number
  readonly restoresAtOnce: number
  readonly minFreeMemoryBytes: number
  readonly minFreeDiskBytes: number
  readonly minFreeFiles: number
  /** The most that one sandbox may ask for. */
  readonly ceilings: SandboxCeilings
  /** What a volume may hold whose creator does not say. */
  readonly volumeBytes: number
  readonly shutdownTimeoutMs: number
  readonly journal: JournalRetention
  readonly scrub: ScrubConfig
  readonly builds: BuildsConfig
  readonly prices: Prices
  readonly network: NetworkConfig
  readonly logLevel: (typeof LOG_LEVELS)[number]
}

export interface LoadConfig {
  readonly env: Env
  /** The arguments of `dormouse up`. */
  readonly args?: readonly string[]
  /** Already known from `--data`; else from DORMOUSE_DATA, else the standard one. */
  readonly dataDir?: string | undefined
  readonly hostFacts?: HostFacts
}

/** Defaults, then `config.json` in the data directory, then the environment, then the arguments: the later wins. */
export function loadConfig({ env, args = [], dataDir: named, hostFacts }: LoadConfig): ServerConfig {
  const dataDir = parseDataDir(named ?? env.DORMOUSE_DATA)
  const layers = [readConfigFile(join(dataDir, 'config.json')), envLayer(env), flagLayer(args)]
  const { tls, domain, cors, host, ssh, journal, scrub, builds, prices, network, ceilings, ...rest } =
    mergeLayers(layers)
  const defaults = defaultConfig(hostFacts ?? readHostFacts(dataDir))
  const config: ServerConfig = {
    ...defaults,
    ...rest,
    dataDir,
    host: literal(host ?? defaults.host),
    tls: completeTls(tls),
    domain,
    cors: { origins: cors?.origins ?? [] },
    ssh: { ...defaults.ssh, ...ssh, host: literal(ssh?.host ?? defaults.ssh.host) },
    journal: { ...defaults.journal, ...journal },
    scrub: { ...defaults.scrub, ...scrub },
    builds: { ...defaults.builds, ...builds },
    prices: { ...defaults.prices, ...prices },
    ceilings: { ...defaults.ceilings, ...ceilings },
    network: completeNetwork({ ...defaults.network, ...network }, env),
  }
  refuseInsecureBind(config)
  return config
}

/** What a hosts file makes of this name could be an address of the outside. */
function literal(host: string): string {
  return host === 'localhost' ? '127.0.0.1' : host
}

function parseDataDir(value: string | undefined): string {
  if (value === undefined || value === '') return DEFAULT_DATA_DIR
  if (isAbsolute(value)) return resolve(value)
  // A relative one would name another directory whenever the server is started from elsewhere.
  throw new DormouseError('invalid_argument', `DORMOUSE_DATA must be an absolute path (saw "${value}")`, {
    details: { field: 'DORMOUSE_DATA' },
  })
}

function completeNetwork(
  network: NonNullable<ConfigInput['network']> &
    Pick<NetworkConfig, 'defaultMode' | 'maxConnections' | 'maxConnectionsTotal'>,
  env: Env,
): NetworkConfig {
  const { defaultMode, maxConnections, maxConnectionsTotal, resolvers, registries, caFile } = network
  const { reachable = [], ownAddresses = [] } = network
  const words = (text: string | undefined) => (text ?? '').split(/\s+/).filter((word) => word !== '')
  return {
    ...{
      defaultMode,
      maxConnections,
      maxConnectionsTotal,
      resolvers,
      reachable,
      ownAddresses,
      registries,
      caFile,
    },
    pipIndexes: [...words(env.PIP_INDEX_URL), ...words(env.PIP_EXTRA_INDEX_URL)],
    proxy: proxyOf(network, env),
  }
}

function proxyOf(
  { proxy: named, proxyResolves: resolves }: NonNullable<ConfigInput['network']>,
  env: Env,
): ProxyConfig | undefined {
  if (named === 'none') return undefined
  // An empty variable is how a program is told to use none. What leaves a sandbox is tunnelled, as HTTPS is.
  const names = ['https_proxy', 'HTTPS_PROXY', 'http_proxy', 'HTTP_PROXY'] as const
  const url = named ?? names.map((name) => env[name]).find((value) => value !== undefined && value !== '')
  if (url === undefined) return undefined
  const noProxy = (env['no_proxy'] ?? env['NO_PROXY'] ?? '').split(/[\s,]+/).filter((word) => word !== '')
  return {
    // Many write it without the scheme, and programs understand.
    url: url.includes('://') ? url : `http://${url}`,
    noProxy,
    ...(resolves !== undefined && { resolves }),
  }
}

function completeTls(tls: Partial<TlsFiles> | undefined): TlsFiles | undefined {
  const { certFile, keyFile } = tls ?? {}
  if (certFile !== undefined && keyFile !== undefined) return { certFile, keyFile }
  if (certFile === undefined && keyFile === undefined) return undefined
  const [missing, flag] =
    certFile === undefined ? ['certificate', '--tls-cert'] : ['private key', '--tls-key']
  throw new DormouseError(
    'invalid_argument',
    `TLS needs a certificate and its private key; the ${missing} is missing`,
    {
      hint: `Give ${flag} too.`,
      details: { field: certFile === undefined ? 'tls.certFile' : 'tls.keyFile' },
    },
  )
}
