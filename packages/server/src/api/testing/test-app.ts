import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Writable } from 'node:stream'
import { DormouseError } from '@dormouse/contracts'
import type { SecretAnswer, TemplateAnswer, VolumeAnswer } from '@dormouse/contracts/http'
import type { Scope } from '../../access/access.ts'
import { SessionRows } from '../../access/session-rows.ts'
import { Sessions } from '../../access/sessions.ts'
import { StoredAccess } from '../../access/stored-access.ts'
import { EventFeed } from '../../fleet/event-feed.ts'
import { PortRows } from '../../ports/port-rows.ts'
import { PortService } from '../../ports/port-service.ts'
import type { ScrubView } from '../../scrub/scrub-view.ts'
import { SshKeyRows } from '../../ssh/key-rows.ts'
import { SshService } from '../../ssh/ssh-service.ts'
import { type Database, openDatabase } from '../../store/database.ts'
import { stateMigrations } from '../../store/migrations/index.ts'
import type { UsageNumbers } from '../../usage/usage.ts'
import { type AppOptions, createApp } from '../app.ts'
import type { App } from '../route.ts'
import type { Health, Services } from '../services.ts'
import { fakeJobs } from './fake-jobs.ts'
import { fakeNodes } from './fake-nodes.ts'
import { exitAtOnce, FakeRuns, FakeSandboxes } from './fake-sandboxes.ts'

export interface TestApp extends AsyncDisposable {
  readonly app: App
  readonly sandboxes: FakeSandboxes
  readonly runs: FakeRuns
  readonly services: Services
  readonly access: StoredAccess
  readonly log: string[]
  /** As if it were new, but for the keys. */
  reset(): void
  health: ReturnType<Health['check']>
  /** Headers with a key of this scope; each call with a new name is another tenant. */
  as(scope: Scope, tenant?: string): { authorization: string }
  /** Sends JSON with a run key. */
  send(method: string, url: string, body?: unknown, headers?: Record<string, string>): Promise<Answer>
}

export interface Answer {
  readonly status: number
  readonly headers: Record<string, unknown>
  readonly text: string
  // biome-ignore lint/suspicious/noExplicitAny: what came over the wire has no type until a test looks at it.
  readonly json: any
}

const HEALTHY: ReturnType<Health['check']> = { status: 'ok', version: '1.2.3' }
const NOW = '2030-01-01T00:00:00.000Z'

const SCRUB: ScrubView = {
  state: 'idle',
  ...{ progress: undefined, beganAt: NOW, finishedAt: NOW, readBytes: 1 },
  ...{ damagedSnapshots: [], damagedTemplates: [] },
}

/** The real HTTP side and the real keys, over services that only remember. */
export async function testApp(options: Partial<AppOptions> = {}): Promise<TestApp> {
  const directory = mkdtempSync(join(tmpdir(), 'dormouse-api-'))
  const database = openDatabase({
    path: join(directory, 'state.db'),
    migrations: stateMigrations,
    synchronous: 'FULL',
  })
  const access = new StoredAccess(database)
  const sandboxes = new FakeSandboxes()
  const runs = new FakeRuns()
  const log: string[] = []
  const state = { health: HEALTHY }
  const services = testServices({ database, access, sandboxes, runs, health: () => state.health })
  const stream = new Writable({
    write: (chunk, _encoding, done) => {
      log.push(String(chunk))
      done()
    },
  })
  const app = await createApp(services, { logger: { level: 'info', stream }, checkAnswers: true, ...options })
  const keys = new Map<string, string>()
  const as = (scope: Scope, tenant = 'one') => {
    const name = `${tenant}-${scope}`
    const key = keys.get(name) ?? access.create({ name, scopes: [scope] }).key
    keys.set(name, key)
    return { authorization: `Bearer ${key}` }
  }
  return {
    ...{ app, sandboxes, runs, services, access, log, as },
    reset: () => {
      sandboxes.held.clear()
      sandboxes.snapshots.clear()
      sandboxes.refusal = undefined
      runs.started.length = 0
      runs.interrupted.length = 0
      runs.refusal = undefined
      runs.script = exitAtOnce
      log.length = 0
      state.health = HEALTHY
    },
    get health() {
      return state.health
    },
    set health(health) {
      state.health = health
    },
    send: (method, url, body, headers = {}) =>
      send(app, { method, url, body, headers: { ...as('run'), ...headers } }),
    [Symbol.asyncDispose]: async () => {
      await app.close()
      database.close()
      rmSync(directory, { recursive: true })
    },
  }
}

/** Services that only remember, with real keys, ports and SSH keys. */
function testServices({
  database,
  access,
  sandboxes,
  runs,
  health,
}: {
  database: Database
  access: StoredAccess
  sandboxes: FakeSandboxes
  runs: FakeRuns
  health: Health['check']
}): Services {
  return {
    ...{ access, sandboxes, runs },
    policyDefaults: {
      idleTimeoutMs: 15_000,
      storeAfterMs: 60_000,
      maxBackgroundMs: 86_400_000,
      network: { mode: 'public', allow: [] },
      connections: { keepAsleepMs: 3_600_000, wakeOnData: false },
    },
    defaultLimits: () => ({
      memoryBytes: 1024 ** 3,
      cpus: 1,
      pids: 512,
      diskBytes: 10 * 1024 ** 3,
      files: 1e6,
    }),
    sessions: new Sessions({ rows: new SessionRows(database), access, nowMs: Date.now }),
    fleet: fakeFleet(),
    templates: fakeTemplates(),
    volumes: fakeVolumes(),
    jobs: fakeJobs(),
    nodes: fakeNodes(),
    secrets: fakeSecrets(),
    ports: new PortService({
      rows: new PortRows(database),
      access,
      domain: 'example.com',
      idleConnectionMs: 1000,
      now: Date.now,
    }),
    ssh: testSsh(database, access),
    usage: { report: async () => USAGE },
    scrub: { view: () => SCRUB, start: () => ({ ...SCRUB, state: 'running' }) },
    metrics: { contentType: 'text/plain; version=0.0.4', text: async () => 'dormouse_sandboxes 1\n' },
    health: { check: health },
    server: {
      report: async () => ({
        ...{ version: '1.2.3', startedAt: NOW, canRunSandboxes: true, checks: [] },
        ...{ disk: { freeBytes: 1, totalBytes: 2 }, memory: { freeBytes: 1, totalBytes: 2 } },
      }),
      log: async function* () {
        yield { seq: 0, text: '{"msg":"ready"}' }
      },
    },
  }
}

async function send(
  app: App,
  request: { method: string; url: string; body: unknown; headers: Record<string, string> },
): Promise<Answer> {
  const { method, url, body, headers } = request
  const answer = await app.inject({
    method: method as 'GET',
    url,
    headers: { ...(body === undefined ? {} : { 'content-type': 'application/json' }), ...headers },
    ...(body === undefined ? {} : { payload: typeof body === 'string' ? body : JSON.stringify(body) }),
  })
  const isJson = String(answer.headers['content-type']).startsWith('application/json')
  return {
    status: answer.statusCode,
    headers: answer.headers,
    text: answer.body,
    json: isJson && answer.body !== '' ? answer.json() : undefined,
  }
}

const NUMBERS: UsageNumbers = {
  ...{ runningSeconds: 1.5, cpuSeconds: 2, memoryGbSeconds: 3, storedGbHours: 4 },
  ...{ wakes: 5, forks: 6, savedTokens: 7, cost: 0.25, alwaysOnCost: 8 },
}
const USAGE = {
  ...{ from: NOW, to: NOW, currency: 'EUR', total: NUMBERS },
  keys: [{ keyId: 'key-1', ...NUMBERS }],
  sandboxes: [{ sandboxId: 'sb-2222222222222222', keyId: 'key-1', name: 'a,"b"', deleted: true, ...NUMBERS }],
}

function fakeFleet(): Services['fleet'] {
  return {
    overview: async () => ({
      ...{ running: 1, frozen: 2, stored: 3, failed: 0, memoryHeldBytes: 4, memorySavedBytes: 5 },
      cost: { currency: 'EUR', spent: 1, alwaysOn: 2 },
      wakes: { count: 1, p50Ms: 1, p99Ms: 1 },
    }),
    activity: async (ids) => ({ items: ids.map((sandboxId) => ({ sandboxId, why: 'Asleep.', day: [] })) }),
    family: async () => ({ nodes: [], more: false }),
    events: new EventFeed(Date.now),
  }
}

function fakeTemplates(): Services['templates'] {
  const templates = new Map<string, TemplateAnswer>()
  const add = (view: Partial<TemplateAnswer> & { name: string }): TemplateAnswer => {
    const whole: TemplateAnswer = {
      ...{
        description: undefined,
        state: 'ready',
        source: 'built_in',
        from: undefined,
        snapshotId: undefined,
        createdAt: NOW,
      },
      ...{ bytes: undefined, materials: undefined, logTail: undefined, error: undefined },
      ...view,
    }
    templates.set(whole.name, whole)
    return whole
  }
  add({ name: 'python' })
  const get = (name: string) => {
    const template = templates.get(name)
    if (template === undefined)
      throw new DormouseError('template_not_found', `there is no template "${name}"`)
    return template
  }
  return {
    list: async () => ({ items: [...templates.values()], nextCursor: undefined }),
    get: async (name) => get(name),
    materials: async (name) => {
      get(name)
      return { count: 1, sha256: '0a'.repeat(32), items: [{ type: 'deb', name: 'git', version: '1' }] }
    },
    build: async ({ name, from }) =>
      add({ name, from, state: 'building', source: 'description', logTail: 'Get:1 …' }),
    fromSnapshot: async ({ name, snapshotId }) => add({ name, snapshotId, source: 'snapshot' }),
    delete: async (name) => void templates.delete(get(name).name),
  }
}

function fakeVolumes(): Services['volumes'] {
  const volumes = new Map<string, VolumeAnswer>()
  const get = async (name: string) => {
    const volume = volumes.get(name)
    if (volume === undefined) throw new DormouseError('not_found', `there is no volume "${name}"`)
    return volume
  }
  return {
    create: async ({ name, sizeBytes = 10 * 1024 ** 3 }) => {
      if (volumes.has(name)) throw new DormouseError('name_taken', `the name "${name}" is taken`)
      const own = { access: 'own', readOnly: false, sharedWith: [], sizeLimit: 'measured' } as const
      volumes.set(name, { name, createdAt: NOW, bytes: 0, files: 0, sizeBytes, usedBy: [], ...own })
      return await get(name)
    },
    list: () => ({ items: [...volumes.values()], nextCursor: undefined }),
    clone: async (name) => get(name),
    share: (name) => volumes.get(name) as VolumeAnswer,
    unshare: (name) => void get(name),
    files: () => {
      throw new DormouseError('not_found', 'the volumes of this test have no files')
    },
    get,
    update: async (name, { sizeBytes }) => {
      const volume = await get(name)
      volumes.set(name, { ...volume, sizeBytes })
      return { ...volume, sizeBytes }
    },
    delete: async (name) => void volumes.delete((await get(name)).name),
  }
}

function fakeSecrets(): Services['secrets'] {
  const secrets = new Map<string, SecretAnswer>()
  const get = (name: string) => {
    const secret = secrets.get(name)
    if (secret === undefined) throw new DormouseError('not_found', `there is no secret "${name}"`)
    return secret
  }
  return {
    create: ({ name, domains }) => {
      if (secrets.has(name)) throw new DormouseError('name_taken', `the name "${name}" is taken`)
      const times = { createdAt: NOW, updatedAt: NOW }
      secrets.set(name, { name, domains, ...times, placeholder: `dormouse-secret-${name}`, usedBy: [] })
      return get(name)
    },
    list: () => ({ items: [...secrets.values()], nextCursor: undefined }),
    get,
    update: async (name, { domains }) => {
      const secret = get(name)
      secrets.set(name, { ...secret, domains: domains ?? secret.domains })
      return get(name)
    },
    delete: async (name) => void secrets.delete(get(name).name),
  }
}

/** The real one, as if it listened. */
function testSsh(database: Database, access: StoredAccess): SshService {
  const ssh = new SshService({ rows: new SshKeyRows(database), access, now: Date.now })
  ssh.listensAt({ host: '127.0.0.1', port: 2222, hostKey: 'ssh-ed25519 AAAA', fingerprint: 'SHA256:x' })
  return ssh
}
