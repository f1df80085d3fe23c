/** A setting that can also come from the environment or the command line, with its place in `config.json`. */
export interface Setting {
  readonly path: readonly [string] | readonly [string, string]
  readonly env: string
  /** Of `dormouse up`. */
  readonly flag?: string
  /** A list has commas between its words. */
  readonly kind: 'text' | 'number' | 'boolean' | 'list'
}

/** Prices and limits of builds are in the file only: a table is no environment variable. */
export const SETTINGS: readonly Setting[] = [
  { path: ['host'], env: 'DORMOUSE_HOST', flag: '--host', kind: 'text' },
  { path: ['port'], env: 'DORMOUSE_PORT', flag: '--port', kind: 'number' },
  { path: ['tls', 'certFile'], env: 'DORMOUSE_TLS_CERT', flag: '--tls-cert', kind: 'text' },
  { path: ['tls', 'keyFile'], env: 'DORMOUSE_TLS_KEY', flag: '--tls-key', kind: 'text' },
  { path: ['allowInsecureBind'], env: 'DORMOUSE_INSECURE_BIND', flag: '--insecure-bind', kind: 'boolean' },
  { path: ['domain'], env: 'DORMOUSE_DOMAIN', kind: 'text' },
  { path: ['ssh', 'enabled'], env: 'DORMOUSE_SSH', kind: 'boolean' },
  { path: ['ssh', 'host'], env: 'DORMOUSE_SSH_HOST', flag: '--ssh-host', kind: 'text' },
  { path: ['ssh', 'port'], env: 'DORMOUSE_SSH_PORT', flag: '--ssh-port', kind: 'number' },
  { path: ['cors', 'origins'], env: 'DORMOUSE_CORS_ORIGINS', kind: 'list' },
  { path: ['idleTimeoutMs'], env: 'DORMOUSE_IDLE_TIMEOUT_MS', kind: 'number' },
  { path: ['storeAfterMs'], env: 'DORMOUSE_STORE_AFTER_MS', kind: 'number' },
  { path: ['idleConnectionMs'], env: 'DORMOUSE_IDLE_CONNECTION_MS', kind: 'number' },
  { path: ['restoresAtOnce'], env: 'DORMOUSE_RESTORES_AT_ONCE', kind: 'number' },
  { path: ['minFreeMemoryBytes'], env: 'DORMOUSE_MIN_FREE_MEMORY_BYTES', kind: 'number' },
  { path: ['minFreeDiskBytes'], env: 'DORMOUSE_MIN_FREE_DISK_BYTES', kind: 'number' },
  { path: ['minFreeFiles'], env: 'DORMOUSE_MIN_FREE_FILES', kind: 'number' },
  { path: ['ceilings', 'memoryBytes'], env: 'DORMOUSE_CEILING_MEMORY_BYTES', kind: 'number' },
  { path: ['ceilings', 'cpus'], env: 'DORMOUSE_CEILING_CPUS', kind: 'number' },
  { path: ['ceilings', 'pids'], env: 'DORMOUSE_CEILING_PIDS', kind: 'number' },
  { path: ['ceilings', 'diskBytes'], env: 'DORMOUSE_CEILING_DISK_BYTES', kind: 'number' },
  { path: ['ceilings', 'files'], env: 'DORMOUSE_CEILING_FILES', kind: 'number' },
  { path: ['volumeBytes'], env: 'DORMOUSE_VOLUME_BYTES', kind: 'number' },
  { path: ['shutdownTimeoutMs'], env: 'DORMOUSE_SHUTDOWN_TIMEOUT_MS', kind: 'number' },
  { path: ['journal', 'keepRuns'], env: 'DORMOUSE_JOURNAL_KEEP_RUNS', kind: 'number' },
  { path: ['journal', 'keepDays'], env: 'DORMOUSE_JOURNAL_KEEP_DAYS', kind: 'number' },
  { path: ['journal', 'runBytes'], env: 'DORMOUSE_JOURNAL_RUN_BYTES', kind: 'number' },
  { path: ['journal', 'sandboxBytes'], env: 'DORMOUSE_JOURNAL_SANDBOX_BYTES', kind: 'number' },
  { path: ['scrub', 'periodDays'], env: 'DORMOUSE_SCRUB_PERIOD_DAYS', kind: 'number' },
  { path: ['scrub', 'bytesPerSecond'], env: 'DORMOUSE_SCRUB_BYTES_PER_SECOND', kind: 'number' },
  { path: ['scrub', 'delayMs'], env: 'DORMOUSE_SCRUB_DELAY_MS', kind: 'number' },
  { path: ['network', 'defaultMode'], env: 'DORMOUSE_NETWORK', kind: 'text' },
  { path: ['network', 'resolvers'], env: 'DORMOUSE_NETWORK_RESOLVERS', kind: 'list' },
  { path: ['network', 'reachable'], env: 'DORMOUSE_NETWORK_REACHABLE', kind: 'list' },
  { path: ['network', 'ownAddresses'], env: 'DORMOUSE_NETWORK_OWN_ADDRESSES', kind: 'list' },
  { path: ['network', 'registries'], env: 'DORMOUSE_NETWORK_REGISTRIES', kind: 'list' },
  { path: ['network', 'proxy'], env: 'DORMOUSE_NETWORK_PROXY', kind: 'text' },
  { path: ['network', 'proxyResolves'], env: 'DORMOUSE_NETWORK_PROXY_RESOLVES', kind: 'boolean' },
  { path: ['network', 'maxConnections'], env: 'DORMOUSE_NETWORK_MAX_CONNECTIONS', kind: 'number' },
  {
    path: ['network', 'maxConnectionsTotal'],
    env: 'DORMOUSE_NETWORK_MAX_CONNECTIONS_TOTAL',
    kind: 'number',
  },
  { path: ['network', 'caFile'], env: 'DORMOUSE_NETWORK_CA_FILE', kind: 'text' },
  { path: ['logLevel'], env: 'DORMOUSE_LOG_LEVEL', kind: 'text' },
]
