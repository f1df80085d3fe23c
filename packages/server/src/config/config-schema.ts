import { isAbsolute } from 'node:path'
import {
  burrowLimitsSchema,
  MAX_DISK_BYTES,
  MIN_CPUS,
  MIN_DISK_BYTES,
  MIN_FILES,
  MIN_MEMORY_BYTES,
  MIN_PIDS,
} from '@dormouse/contracts'
import { z } from 'zod'

const MAX_PORT = 65_535
const ORIGINS_MAX = 64
const MAX_DAYS = 36_500
/** Less would not hold the traceback of an error and what led to it. */
const MIN_JOURNAL_BYTES = 64 * 1024
const MAX_JOURNAL_BYTES = 1024 ** 4
/** What a timer of Node can hold; longer ones would fire at once. */
const MAX_TIMER_MS = 2 ** 31 - 1

const HOST_NAME = /^(?!-)[a-zA-Z0-9-]{1,63}(\.[a-zA-Z0-9-]{1,63})*$/
const DOMAIN = /^(?!-)[a-z0-9-]{1,63}(\.[a-z0-9-]{1,63})*$/

const REGISTRY = /^(?!-)[a-zA-Z0-9-]{1,63}(\.[a-zA-Z0-9-]{1,63})*(:\d{1,5})?$/

export const LOG_LEVELS = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'] as const

const { shape: processLimits } = burrowLimitsSchema
const timerMs = z.int().min(0).max(MAX_TIMER_MS)
const bytes = z.int().min(0)
const price = z.number().min(0).max(1e6)
// A relative one would name another file whenever the server is started from elsewhere.
const file = z.string().refine(isAbsolute, 'must be an absolute path')

const origin = z.string().refine(isOrigin, 'must be an origin such as https://app.example.com')

/** Everything that can be set, as it is written in `config.json`. All of it may be left out. docs/configuration.md says what it means. */
export const configSchema = z
  .strictObject({
    host: z.union([z.ipv4(), z.ipv6(), z.string().regex(HOST_NAME)], 'must be an IP address or a host name'),
    /** 0: any that is free. */
    port: z.int().min(0).max(MAX_PORT),
    tls: z.strictObject({ certFile: file, keyFile: file }).exactPartial(),
    allowInsecureBind: z.boolean(),
    domain: z.string().regex(DOMAIN, 'must be a host name in small letters, such as sandboxes.example.com'),
    ssh: z
      .strictObject({
        enabled: z.boolean(),
        host: z.union(
          [z.ipv4(), z.ipv6(), z.string().regex(HOST_NAME)],
          'must be an IP address or a host name',
        ),
        /** 0: any that is free. */
        port: z.int().min(0).max(MAX_PORT),
      })
      .exactPartial(),
    cors: z.strictObject({ origins: z.array(origin).max(ORIGINS_MAX) }).exactPartial(),
    idleTimeoutMs: timerMs,
    storeAfterMs: timerMs,
    idleConnectionMs: timerMs,
    restoresAtOnce: z.int().min(1).max(1024),
    minFreeMemoryBytes: bytes,
    minFreeDiskBytes: bytes,
    minFreeFiles: z.int().min(0),
    ceilings: z
      .strictObject({
        memoryBytes: z.int().min(MIN_MEMORY_BYTES),
        cpus: z.number().min(MIN_CPUS),
        pids: z.int().min(MIN_PIDS),
        diskBytes: z.int().min(MIN_DISK_BYTES),
        files: z.int().min(MIN_FILES),
      })
      .exactPartial(),
    volumeBytes: z.int().min(MIN_DISK_BYTES).max(MAX_DISK_BYTES),
    shutdownTimeoutMs: timerMs,
    journal: z
      .strictObject({
        keepRuns: z.int().min(1).max(1_000_000),
        keepDays: z.number().positive().max(MAX_DAYS),
        runBytes: z.int().min(MIN_JOURNAL_BYTES).max(MAX_JOURNAL_BYTES),
        sandboxBytes: z.int().min(MIN_JOURNAL_BYTES).max(MAX_JOURNAL_BYTES),
      })
      .exactPartial(),
    scrub: z
      .strictObject({
        /** 0: only when asked. */
        periodDays: z.number().min(0).max(MAX_DAYS),
        bytesPerSecond: z.int().min(1),
        delayMs: timerMs,
      })
      .exactPartial(),
    builds: z
      .strictObject({
        atOnce: z.int().min(1).max(1024),
        timeoutMs: timerMs.min(1000),
        memoryBytes: processLimits.memoryBytes.unwrap(),
        cpus: processLimits.cpus.unwrap(),
        pids: processLimits.pids.unwrap(),
        diskBytes: z.int().min(MIN_DISK_BYTES).max(MAX_DISK_BYTES),
        files: z.int().min(MIN_FILES),
      })
      .exactPartial(),
    prices: z
      .strictObject({
        currency: z.string().regex(/^[A-Z]{3}$/, 'must be three capital letters, such as EUR'),
        runningCpuSecond: price,
        memoryGbSecond: price,
        storedGbHour: price,
        alwaysOnCpuSecond: price,
        alwaysOnMemoryGbSecond: price,
      })
      .exactPartial(),
    network: z
      .strictObject({
        defaultMode: z.enum(['none', 'public']),
        resolvers: z
          .array(z.union([z.ipv4(), z.ipv6()], 'must be an IP address'))
          .min(1)
          .max(8),
        reachable: z.array(z.union([z.cidrv4(), z.cidrv6()], 'must be a range of addresses')).max(64),
        ownAddresses: z.array(z.union([z.ipv4(), z.ipv6()], 'must be an IP address')).max(64),
        registries: z.array(z.string().regex(REGISTRY, 'must be `host` or `host:port`')).max(64),
        proxy: z.union(
          [z.literal('none'), z.url({ protocol: /^https?$/ })],
          'must be a URL such as http://proxy.example.com:3128, or `none`',
        ),
        proxyResolves: z.boolean(),
        maxConnections: z.int().min(1).max(65_536),
        maxConnectionsTotal: z.int().min(16).max(65_536),
        caFile: file,
      })
      .exactPartial(),
    logLevel: z.enum(LOG_LEVELS),
  })
  .exactPartial()

export type ConfigInput = z.infer<typeof configSchema>

/** As a browser writes it: no path, no default port, no wildcard. */
function isOrigin(text: string): boolean {
  return /^https?:/.test(text) && URL.canParse(text) && new URL(text).origin === text
}
