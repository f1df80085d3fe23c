import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { isLoopback, localUrl, readTls } from './bind.ts'
import { type LoadConfig, loadConfig } from './config.ts'
import { readHostFacts } from './host-facts.ts'
import { defaultSettings } from './settings.ts'

const GIB = 1024 ** 3
const hostFacts = { cpus: 4, memoryBytes: 16 * GIB, diskBytes: 200 * GIB, files: 13e6, pids: 4_194_304 }

let dataDir: string
let configFile: string
beforeEach(() => {
  dataDir = mkdtempSync(join(tmpdir(), 'dormouse-config-'))
  configFile = join(dataDir, 'config.json')
})
afterEach(() => rmSync(dataDir, { recursive: true }))

const load = (options: Partial<LoadConfig> = {}) => loadConfig({ env: {}, dataDir, hostFacts, ...options })
const write = (value: unknown) => writeFileSync(configFile, JSON.stringify(value))
const invalid = (message: string | RegExp) =>
  expect.objectContaining({
    code: 'invalid_argument',
    message: typeof message === 'string' ? expect.stringContaining(message) : expect.stringMatching(message),
  })

describe('loadConfig', () => {
  it('has a default for every setting; watermarks depend on the host', () => {
    expect(load()).toEqual({
      dataDir,
      ...defaultSettings(hostFacts),
      tls: undefined,
      domain: undefined,
      cors: { origins: [] },
      network: {
        defaultMode: 'public',
        maxConnections: 512,
        maxConnectionsTotal: 4096,
        resolvers: undefined,
        reachable: [],
        ownAddresses: [],
        registries: undefined,
        caFile: undefined,
        pipIndexes: [],
        npmRegistries: [],
        proxy: undefined,
      },
    })
    expect(load()).toMatchObject({ host: '127.0.0.1', port: 7070, idleTimeoutMs: 15_000, restoresAtOnce: 8 })
    expect(load()).toMatchObject({ minFreeMemoryBytes: 858_993_459, minFreeDiskBytes: 10 * GIB })
    expect(load()).toMatchObject({ frozenMemoryBytes: 4 * GIB })
  })

  it.each([
    { gib: 1, cpus: 1, defaults: { memoryBytes: GIB, cpus: 1 } },
    { gib: 4, cpus: 2, defaults: { memoryBytes: 2 * GIB, cpus: 1 } },
    { gib: 16, cpus: 6, defaults: { memoryBytes: 8 * GIB, cpus: 3 } },
    { gib: 256, cpus: 64, defaults: { memoryBytes: 8 * GIB, cpus: 4 } },
  ])(
    'gives sandboxes half of a host with $gib GiB and $cpus CPUs, within bounds',
    ({ gib, cpus, defaults }) => {
      expect(load({ hostFacts: { ...hostFacts, memoryBytes: gib * GIB, cpus } }).defaults).toEqual(defaults)
      const env = { DORMOUSE_DEFAULT_MEMORY_BYTES: String(3 * GIB), DORMOUSE_DEFAULT_CPUS: '0.5' }
      expect(load({ env }).defaults).toEqual({ memoryBytes: 3 * GIB, cpus: 0.5 })
      expect(() => load({ env: { DORMOUSE_DEFAULT_MEMORY_BYTES: '1' } })).toThrow(
        invalid('DORMOUSE_DEFAULT_MEMORY_BYTES'),
      )
    },
  )

  it('listens for SSH on loopback unless ssh.host is set', () => {
    expect(load({ flags: { '--host': '0.0.0.0', '--insecure-bind': 'true' } }).ssh).toEqual({
      enabled: true,
      host: '127.0.0.1',
      port: 2222,
    })
    write({ ssh: { host: 'localhost', port: 22 } })
    const env = { DORMOUSE_SSH: 'no', DORMOUSE_SSH_PORT: '2022' }
    expect(load({ env, flags: { '--ssh-port': '0' } }).ssh).toEqual({
      enabled: false,
      host: '127.0.0.1',
      port: 0,
    })
    expect(load({ flags: { '--ssh-host': '0.0.0.0' } }).ssh.host).toBe('0.0.0.0')
    expect(() => load({ flags: { '--ssh-port': '70000' } })).toThrow(invalid('--ssh-port'))
  })

  it('lets the file win over the defaults, the environment over the file, the flags over both', () => {
    write({
      port: 1000,
      host: '127.0.0.2',
      idleTimeoutMs: 5,
      journal: { keepDays: 7 },
      prices: { storedGbHour: 1 },
    })
    const env = {
      DORMOUSE_PORT: '2000',
      DORMOUSE_HOST: '127.0.0.3',
      DORMOUSE_JOURNAL_KEEP_RUNS: '9',
      DORMOUSE_DOMAIN: '',
    }
    const config = load({ env, flags: { '--port': '3000' } })
    expect(config).toMatchObject({ port: 3000, host: '127.0.0.3', idleTimeoutMs: 5, domain: undefined })
    expect(config.journal).toMatchObject({ keepRuns: 9, keepDays: 7 })
    expect(config.prices).toMatchObject({ storedGbHour: 1, currency: 'USD' })
  })

  it('takes the proxy from the environment, unless a setting names another or none', () => {
    const env = {
      HTTPS_PROXY: 'p.example.com:1',
      http_proxy: 'http://h.example.com:1',
      no_proxy: 'a.example.com, .b.example.com',
      PIP_INDEX_URL: 'http://i.example.com/',
      NPM_CONFIG_REGISTRY: 'http://n.example.com/',
    }
    expect(load({ env }).network).toMatchObject({
      proxy: { url: 'http://p.example.com:1', noProxy: ['a.example.com', '.b.example.com'] },
      pipIndexes: ['http://i.example.com/'],
      npmRegistries: ['http://n.example.com/'],
    })
    expect(load({ env: { ...env, HTTPS_PROXY: '' } }).network.proxy?.url).toBe('http://h.example.com:1')
    const other = { ...env, DORMOUSE_NETWORK_PROXY: 'http://q.example.com:2' }
    expect(load({ env: other }).network.proxy?.url).toBe('http://q.example.com:2')
    const none = { ...env, DORMOUSE_NETWORK_PROXY: 'none' }
    expect(load({ env: none }).network.proxy).toBeUndefined()
  })

  it('lets the proxy resolve names if a setting says so', () => {
    const env = { HTTPS_PROXY: 'p.example.com:1' }
    expect(load({ env }).network.proxy).not.toHaveProperty('resolves')
    write({ network: { proxyResolves: true } })
    expect(load({ env }).network.proxy).toMatchObject({ url: 'http://p.example.com:1', resolves: true })
    const refusing = { ...env, DORMOUSE_NETWORK_PROXY_RESOLVES: 'no' }
    expect(load({ env: refusing }).network.proxy).toMatchObject({ resolves: false })
    expect(load().network.proxy).toBeUndefined()
  })

  it('reads comma-separated lists from the environment', () => {
    const env = {
      DORMOUSE_NETWORK_RESOLVERS: '192.0.2.1, 2001:db8::1',
      DORMOUSE_NETWORK_REACHABLE: '10.1.0.0/16',
    }
    expect(load({ env }).network).toMatchObject({
      resolvers: ['192.0.2.1', '2001:db8::1'],
      reachable: ['10.1.0.0/16'],
    })
    expect(() => load({ env: { DORMOUSE_NETWORK_REACHABLE: '10.1.0.0' } })).toThrow(
      invalid('DORMOUSE_NETWORK_REACHABLE'),
    )
  })

  it.each([
    ['a resolver that is a name', { network: { resolvers: ['dns.example.com'] } }, 'network.resolvers'],
    ['a mode that needs a list', { network: { defaultMode: 'allow' } }, 'network.defaultMode'],
    ['a registry with a path', { network: { registries: ['example.com/simple'] } }, 'network.registries'],
    ['a proxy that is none', { network: { proxy: 'proxy:3128' } }, 'network.proxy'],
    ['an unknown field', { prt: 7070 }, 'prt'],
    ['an unknown inner field', { journal: { keepHours: 3 } }, 'journal.keepHours'],
    ['a wrong type', { port: '7070' }, 'port'],
    ['a port that is none', { port: 65_536 }, 'port'],
    ['a negative time', { idleTimeoutMs: -1 }, 'idleTimeoutMs'],
    ['a time that no timer can hold', { storeAfterMs: 2 ** 31 }, 'storeAfterMs'],
    ['a fraction of a byte', { minFreeDiskBytes: 1.5 }, 'minFreeDiskBytes'],
    ['a relative certificate', { tls: { certFile: 'a.pem', keyFile: '/k.pem' } }, 'tls.certFile'],
    ['a host that is none', { host: 'not a host' }, 'host'],
    ['a domain with a path', { domain: 'example.com/x' }, 'domain'],
    ['an origin for everybody', { cors: { origins: ['*'] } }, 'cors.origins'],
    ['an origin with a path', { cors: { origins: ['https://example.com/'] } }, 'cors.origins'],
    ['an origin with a wildcard', { cors: { origins: ['https://*.example.com:443'] } }, 'cors.origins'],
    ['an origin that is none', { cors: { origins: ['null'] } }, 'cors.origins'],
    ['a list', [], 'expected object'],
  ])('refuses %s in the file, and names file and field', (_what, value, field) => {
    write(value)
    expect(() => load()).toThrow(invalid(configFile))
    expect(() => load()).toThrow(invalid(field))
    expect(() => load()).toThrow(
      expect.objectContaining({ hint: expect.stringContaining('docs/configuration.md') }),
    )
  })

  it('refuses a file that is not JSON, and one that it cannot read', () => {
    writeFileSync(configFile, '{"port": 1,}')
    expect(() => load()).toThrow(invalid(/config\.json is not JSON/))
    rmSync(configFile)
    expect(() => load({ dataDir: join(dataDir, 'missing') })).not.toThrow()
  })

  it.each([
    [{ DORMOUSE_PORT: 'http' }, 'DORMOUSE_PORT'],
    [{ DORMOUSE_PORT: '-1' }, 'DORMOUSE_PORT'],
    [{ DORMOUSE_PORT: '7e3' }, 'DORMOUSE_PORT'],
    [{ DORMOUSE_INSECURE_BIND: 'maybe' }, 'DORMOUSE_INSECURE_BIND'],
    [{ DORMOUSE_LOG_LEVEL: 'loud' }, 'DORMOUSE_LOG_LEVEL'],
  ])('refuses %j and names the variable', (env, name) => {
    expect(() => load({ env })).toThrow(invalid(name))
  })

  it.each([
    [{ '--prot': '1' }, '--prot'],
    [{ '--port': 'x' }, '--port'],
    [{ '--insecure-bind': 'maybe' }, '--insecure-bind'],
  ])('refuses the flags %j', (flags, message) => {
    expect(() => load({ flags: flags as LoadConfig['flags'] & object })).toThrow(invalid(message))
  })

  it('uses the given data directory, else DORMOUSE_DATA', () => {
    const { dataDir: _named, ...unnamed } = { env: {}, hostFacts, dataDir }
    expect(loadConfig({ ...unnamed, env: { DORMOUSE_DATA: `${dataDir}/` } }).dataDir).toBe(dataDir)
    expect(() => loadConfig({ ...unnamed, env: { DORMOUSE_DATA: 'data' } })).toThrow(invalid('DORMOUSE_DATA'))
  })

  it('needs both certificate and key, from any source', () => {
    expect(() => load({ flags: { '--tls-cert': '/c.pem' } })).toThrow(invalid('private key is missing'))
    expect(() => load({ env: { DORMOUSE_TLS_KEY: '/k.pem' } })).toThrow(invalid('certificate is missing'))
    const both = load({ flags: { '--tls-cert': '/c.pem' }, env: { DORMOUSE_TLS_KEY: '/k.pem' } })
    expect(both.tls).toEqual({ certFile: '/c.pem', keyFile: '/k.pem' })
  })
})

describe('listening', () => {
  it.each(['0.0.0.0', '::', '192.168.1.5', 'example.com', 'fe80::1', '128.0.0.1'])(
    'on %s needs TLS or --insecure-bind',
    (host) => {
      expect(() => load({ flags: { '--host': host } })).toThrow(
        expect.objectContaining({ code: 'insecure_bind', hint: expect.stringContaining('--insecure-bind') }),
      )
      expect(load({ flags: { '--host': host, '--insecure-bind': 'true' } }).host).toBe(host)
      expect(load({ flags: { '--host': host, '--tls-cert': '/c', '--tls-key': '/k' } }).host).toBe(host)
    },
  )

  it('on a name that only looks like loopback is refused; localhost means 127.0.0.1', () => {
    expect(isLoopback('127.evil.example')).toBe(false)
    expect(isLoopback('localhost')).toBe(false)
    expect(load({ flags: { '--host': 'localhost' } }).host).toBe('127.0.0.1')
    for (const host of ['127.0.0.1', '127.9.9.9', '::1', '::ffff:127.0.0.1'])
      expect(isLoopback(host)).toBe(true)
  })

  it('localUrl is an address that local clients can reach', () => {
    const url = (host: string, more = {}) =>
      localUrl({ host, tls: undefined, domain: undefined, ...more }, 7070)
    const tls = { certFile: '/c', keyFile: '/k' }
    expect(url('127.0.0.1')).toBe('http://127.0.0.1:7070')
    expect(url('0.0.0.0')).toBe('http://127.0.0.1:7070')
    expect(url('::')).toBe('http://[::1]:7070')
    expect(url('0.0.0.0', { tls, domain: 'dm.example.com' })).toBe('https://dm.example.com:7070')
    expect(url('10.0.0.1', { tls })).toBe('https://10.0.0.1:7070')
  })

  it('readTls names the file that it cannot read', () => {
    writeFileSync(join(dataDir, 'c.pem'), 'cert')
    const files = { certFile: join(dataDir, 'c.pem'), keyFile: join(dataDir, 'k.pem') }
    expect(() => readTls(files)).toThrow(
      expect.objectContaining({ code: 'setup_failed', message: expect.stringContaining('private key') }),
    )
  })
})

describe('defaultSettings', () => {
  it('bounds the watermarks on small and on large hosts', () => {
    expect(
      defaultSettings({ cpus: 1, memoryBytes: GIB, diskBytes: 8 * GIB, files: 500_000, pids: 32_768 }),
    ).toMatchObject({
      restoresAtOnce: 2,
      minFreeMemoryBytes: 256 * 1024 ** 2,
      minFreeDiskBytes: GIB,
    })
    expect(
      defaultSettings({ cpus: 64, memoryBytes: 512 * GIB, diskBytes: 8192 * GIB, files: 0, pids: 4_194_304 }),
    ).toMatchObject({
      minFreeMemoryBytes: 2 * GIB,
      minFreeDiskBytes: 20 * GIB,
    })
  })

  it('readHostFacts reads the file system of a directory that does not exist yet', () => {
    expect(readHostFacts(join(dataDir, 'a', 'b'))).toEqual(readHostFacts(dataDir))
  })
})
