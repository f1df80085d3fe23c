import { setTimeout as sleep } from 'node:timers/promises'
import type { ServerProcess } from '../server-process.ts'
import type { Caller, Fixtures } from './draft.ts'
import type { Json } from './openapi.ts'

type Call = Parameters<ServerProcess['ok']>[1]

const GIB = 1024 ** 3
/** What the tenant may have bounds what granted requests cost. */
const QUOTAS = { sandboxes: 6, running: 5, memoryBytes: 6 * GIB }
const SETTLE_MS = 10_000
const POLL_MS = 20
const MASTER = 'fuzz-master'
const VOLUME = 'fuzz-volume'
const SECRET = { name: 'FUZZ_SECRET', value: 'fuzz-value-0123456789', domains: ['api.example.com'] }
const SSH_KEY = {
  name: 'fuzz-ssh-key',
  publicKey: 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAILTlXBTxl2owUWjvsTzWruK7gPOdQiJUIdk6NnKIBNHv',
}
const POLICY = {
  ...{ name: null, metadata: {}, idleTimeoutMs: 0, storeAfterMs: 60_000, expires: null, ephemeral: false },
  secrets: [],
  limits: { memoryBytes: GIB, cpus: 1, pids: 512 },
}
/** In the sandbox that requests are about. */
const CONTEXT = 'side'
const SET_UP = 'mkdir -p fuzz/dir && echo hello >fuzz/a.txt && echo b >fuzz/dir/b'

/** A server with tenants, and things of each kind that requests can name. */
export class World {
  readonly server: ServerProcess
  readonly #keys: Record<Caller, string | undefined>
  readonly #keyIds = new Map<Caller, string>()
  #processId = ''
  #fixtures: Fixtures | undefined
  /** What only its owner and an admin may read. */
  secrets: readonly string[] = []

  private constructor(server: ServerProcess) {
    this.server = server
    this.#keys = {
      none: undefined,
      garbage: 'dm_aaaaaaaaaaaa_x',
      admin: server.key,
      own: '',
      other: '',
      reader: '',
      revoked: '',
    }
  }

  static async make(server: ServerProcess): Promise<World> {
    const world = new World(server)
    await world.#begin()
    return world
  }

  get fixtures(): Fixtures {
    if (this.#fixtures === undefined) throw new Error('the world is not made yet')
    return this.#fixtures
  }

  authorization(caller: Caller): string | undefined {
    const key = this.#keys[caller]
    return key === undefined ? undefined : `Bearer ${key}`
  }

  as(caller: Caller, path: string, options: Call = {}): Promise<Json> {
    return this.server.ok(path, { ...options, key: this.#keys[caller] ?? '' })
  }

  async #begin(): Promise<void> {
    await this.#addKey('own', { scopes: ['run'], quotas: QUOTAS })
    await this.#addKey('other', { scopes: ['run'] })
    await this.#addKey('reader', { scopes: ['read'] })
    await this.#addKey('revoked', { scopes: ['run'] })
    await this.as('admin', `/v1/keys/${this.#keyIds.get('revoked')}`, { method: 'DELETE' })
    const spare = await this.as('admin', '/v1/keys', { json: { name: 'spare' } })
    const others = await this.#other()
    const deleted = await this.as('own', '/v1/sandboxes', { json: {} })
    await this.as('own', `/v1/sandboxes/${deleted.id}`, { method: 'DELETE' })
    await this.#makeMaster()
    await this.as('own', '/v1/volumes', { json: { name: VOLUME } })
    await this.as('own', '/v1/secrets', { json: SECRET })
    await this.as('own', '/v1/ssh-keys', { json: SSH_KEY })
    this.#fixtures = {
      ...{
        sandbox: '',
        run: '',
        snapshot: '',
        processId: this.#processId,
        context: CONTEXT,
        template: 'python',
      },
      ...{
        key: spare.id,
        volume: VOLUME,
        secret: SECRET.name,
        sshKey: SSH_KEY.name,
        takenName: MASTER,
        others,
        deletedSandbox: deleted.id,
      },
    }
    await this.refresh()
  }

  async #addKey(caller: Caller, request: object): Promise<void> {
    const { id, key } = await this.as('admin', '/v1/keys', { json: { name: caller, ...request } })
    this.#keys[caller] = key
    this.#keyIds.set(caller, id)
  }

  async #other(): Promise<Fixtures['others']> {
    const { id } = await this.as('other', '/v1/sandboxes', {
      json: { name: 'of-the-other', idleTimeoutMs: 0 },
    })
    const { runId } = await this.as('other', `/v1/sandboxes/${id}/run`, { json: { code: 'x = 1' } })
    const snapshot = await this.as('other', `/v1/sandboxes/${id}/snapshots`, {
      json: { name: 'of-the-other' },
    })
    this.secrets = [id, runId, snapshot.id, 'of-the-other', this.#keyIds.get('other') ?? '']
    return { sandbox: id, run: runId, snapshot: snapshot.id }
  }

  async #makeMaster(): Promise<void> {
    const at = `/v1/sandboxes/${MASTER}`
    await this.as('own', '/v1/sandboxes', { json: { name: MASTER, idleTimeoutMs: 0 } })
    await this.as('own', `${at}/run`, { json: { code: SET_UP, language: 'bash' } })
    await this.as('own', `${at}/contexts`, { json: { name: CONTEXT } })
    const { processId } = await this.as('own', `${at}/processes`, { json: { args: ['sleep', '100000'] } })
    this.#processId = processId
  }

  /** The sandbox that requests are about, as new. */
  async refresh(): Promise<void> {
    await this.tidy([MASTER])
    const { children } = await this.as('own', `/v1/sandboxes/${MASTER}/fork`, { json: { count: 1 } })
    const sandbox: string = children[0].id
    const { runId } = await this.as('own', `/v1/sandboxes/${sandbox}/run`, { json: { code: 'y = 2' } })
    const { id } = await this.as('own', `/v1/sandboxes/${sandbox}/snapshots`, { json: { name: 'fuzz' } })
    this.#fixtures = { ...this.fixtures, sandbox, run: runId, snapshot: id }
  }

  /** Puts right what a granted request has done to the things that later requests name. */
  async repair(operationId: string): Promise<void> {
    await this.tidy()
    await this.#mend(operationId)
    await this.#settle()
  }

  async #mend(operationId: string): Promise<void> {
    const at = `/v1/sandboxes/${this.fixtures.sandbox}`
    const isThere = (await this.server.call(at)).status === 200
    if (!isThere || operationId === 'deleteSnapshot' || operationId === 'rollback') return this.refresh()
    if (operationId === 'deleteVolume') await this.as('own', '/v1/volumes', { json: { name: VOLUME } })
    if (operationId === 'deleteSecret') await this.as('own', '/v1/secrets', { json: SECRET })
    if (operationId === 'deleteSshKey') await this.as('own', '/v1/ssh-keys', { json: SSH_KEY })
    if (operationId === 'updateSandbox') await this.as('own', at, { method: 'PATCH', json: POLICY })
    if (operationId === 'deleteContext') await this.as('own', `${at}/contexts`, { json: { name: CONTEXT } })
    if (operationId === 'signalProcess') {
      const { processId } = await this.as('own', `${at}/processes`, { json: { args: ['sleep', '100000'] } })
      this.#fixtures = { ...this.fixtures, processId }
    }
  }

  /**
   * States that a sandbox has slept with before are removed behind the scenes: that must not look like the work of
   * the next request.
   */
  async #settle(): Promise<void> {
    const until = Date.now() + SETTLE_MS
    for (;;) {
      const { items } = await this.as('admin', '/v1/snapshots?limit=1000')
      const old = items.filter(({ name, isHead }: Json) => name === undefined && !isHead)
      if (old.length === 0) return
      if (Date.now() > until) throw new Error(`unneeded snapshots stay: ${JSON.stringify(old)}`)
      // Those that were asked for without a name are no longer needed; the others may be gone by now.
      for (const { id } of old) await this.server.call(`/v1/snapshots/${id}`, { method: 'DELETE' })
    }
  }

  /** Takes away what granted requests have made. */
  async tidy(keep: readonly string[] = [MASTER, this.fixtures.sandbox]): Promise<void> {
    await this.#endWork()
    const { items } = await this.as('own', '/v1/sandboxes?limit=1000')
    for (const { id, name } of items) {
      if (keep.includes(id) || keep.includes(name)) continue
      // It may have gone by itself: some are asked to.
      await this.server.call(`/v1/sandboxes/${id}`, { method: 'DELETE', key: this.#keys.own ?? '' })
    }
    const templates = await this.as('own', '/v1/templates?limit=1000')
    for (const { name, source } of templates.items)
      if (source !== 'built_in' && source !== 'host')
        await this.as('own', `/v1/templates/${name}`, { method: 'DELETE' })
  }

  /** Services, jobs, schedules and webhooks act by themselves, which must not look like the work of the next request. */
  async #endWork(): Promise<void> {
    for (const kind of ['schedules', 'webhooks', 'services', 'jobs'])
      for (const key of [this.server.key, this.#keys.own ?? '', this.#keys.other ?? '']) {
        const { items } = await this.server.ok(`/v1/${kind}?limit=1000`, { key })
        for (const { id, name } of items) {
          const at = `/v1/${kind}/${id ?? name}`
          if (kind === 'jobs') await this.#endJob(at, key)
          await this.server.call(at, { method: 'DELETE', key })
        }
      }
    const { items } = await this.as('admin', '/v1/sandboxes?limit=1000')
    for (const { id, metadata } of items)
      if (metadata.job !== undefined || metadata['dormouse/service'] !== undefined)
        await this.server.call(`/v1/sandboxes/${id}`, { method: 'DELETE' })
  }

  /** A cancelled job ends when its sandboxes are gone, and can only be deleted then. */
  async #endJob(at: string, key: string): Promise<void> {
    await this.server.call(`${at}/cancel`, { key, json: {} })
    const until = Date.now() + SETTLE_MS
    for (;;) {
      const { status, body } = await this.server.call(at, { key })
      if (status !== 200 || body.finishedAt !== undefined) return
      if (Date.now() > until) throw new Error(`a cancelled job does not end: ${JSON.stringify(body)}`)
      await sleep(POLL_MS)
    }
  }

  /** All that a refused request could have changed, read with the admin's key. */
  async state(): Promise<Json> {
    const { sandbox } = this.fixtures
    const lists = [
      ...['sandboxes', 'snapshots', 'templates', 'keys', 'volumes', 'secrets', 'ssh-keys'],
      ...['services', 'jobs', 'schedules', 'webhooks'],
    ]
    const [runs, ...pages] = await Promise.all([
      this.as('own', `/v1/sandboxes/${sandbox}/runs`),
      ...lists.map((list) => this.as('admin', `/v1/${list}?limit=1000`)),
    ])
    const state: Json = Object.fromEntries(lists.map((list, index) => [list, pages[index].items]))
    for (const one of state.sandboxes) delete one.lastActiveAt
    // The server measures volumes in the background.
    for (const one of state.volumes) {
      delete one.bytes
      delete one.files
    }
    const main = state.sandboxes.find(({ id }: Json) => id === sandbox)
    state.runs = runs.items.map(({ runId }: Json) => runId)
    // Looking inside would wake it.
    if (main?.state === 'running') state.inside = await this.#inside(sandbox)
    return state
  }

  async #inside(sandbox: string): Promise<Json> {
    const [contexts, files] = await Promise.all([
      this.as('own', `/v1/sandboxes/${sandbox}/contexts`),
      this.as('own', `/v1/sandboxes/${sandbox}/files/list?path=/root&depth=4`),
    ])
    return {
      contexts: contexts.items.map(({ name }: Json) => name),
      files: files.items.map(({ path, sizeBytes, modifiedAt }: Json) => `${path} ${sizeBytes} ${modifiedAt}`),
    }
  }
}
