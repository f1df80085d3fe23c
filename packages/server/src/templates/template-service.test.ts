import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DormouseError, type SandboxId } from '@dormouse/contracts'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { type Database, openDatabase } from '../store/database.ts'
import { stateMigrations } from '../store/migrations/index.ts'
import { SnapshotRows } from '../store/snapshot-rows.ts'
import { BuildLog } from './build-log.ts'
import { BuiltInTemplates } from './built-in-templates.ts'
import type { BuildRequest, Built, RunningBuild } from './template-builds.ts'
import { TemplateCatalog } from './template-catalog.ts'
import { TemplateRows } from './template-rows.ts'
import { type HostTemplates, TemplateService } from './template-service.ts'

let dir: string
let db: Database
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'dormouse-templates-'))
  db = openDatabase({ path: join(dir, 'state.db'), migrations: stateMigrations, synchronous: 'NORMAL' })
})
afterEach(() => {
  db.close()
  rmSync(dir, { recursive: true })
})

const caller = { keyId: 'key', isAdmin: false }
const python = {
  name: 'python',
  description: undefined,
  createdAt: '',
  bytes: 1,
  preload: [],
  materials: undefined,
}
const description = { name: 'big', packages: [], pip: [], commands: [], preload: [] }

function service(
  build: (request: BuildRequest, log: BuildLog) => Promise<Built>,
  removed: SandboxId[] = [],
  host: Partial<HostTemplates> = {},
  catalog = new TemplateCatalog(new TemplateRows(db)),
): TemplateService {
  let running: RunningBuild | undefined
  return new TemplateService({
    catalog,
    snapshots: new SnapshotRows(db),
    host: {
      list: async () => [python],
      materials: async () => undefined,
      remove: async () => {},
      ...host,
    },
    builds: {
      find: () => running,
      requireRoom: () => {},
      start: (request) => {
        const log = new BuildLog()
        const ended = build(request, log).finally(() => {
          running = undefined
        })
        running = { owner: caller.keyId, name: request.description.name, log, ended, stop: () => {} }
        return running
      },
      removeSandbox: async (id) => void removed.push(id),
      stopAll: async () => {},
    },
    isNeeded: () => false,
    dropSnapshot: async () => {},
    now: () => 0,
    log: { info() {}, warn() {}, error() {} },
  })
}

it('a build that fills the disk has failed, also when that cannot be written down', async () => {
  const templates = service(async ({ announce }, log) => {
    announce('sb-2222222222222222')
    const { page_count } = db.prepare<[], { page_count: number }>('PRAGMA page_count').get() ?? {
      page_count: 0,
    }
    db.exec(`PRAGMA max_page_count = ${page_count}`)
    for (let line = 0; line < 60; line++) log.say('x'.repeat(500))
    throw new DormouseError('no_space', 'The disk is full.')
  })
  await templates.open()
  await templates.build(description, caller)
  await expect.poll(async () => (await templates.get('big', caller)).state).toBe('failed')
  expect((await templates.get('big', caller)).error).toBe('The disk is full.')
  // The next server finds a build that did not come to an end, and ends what it was built in.
  db.exec('PRAGMA max_page_count = 1000000')
  const removed: SandboxId[] = []
  const next = service(async () => Promise.reject(new Error('unused')), removed)
  await next.open()
  expect((await next.get('big', caller)).state).toBe('failed')
  expect(removed).toEqual(['sb-2222222222222222'])
})

it('a running build shows the end of its log, without sequences that move the cursor of a terminal', async () => {
  let end = () => {}
  const templates = service(async (_request, log) => {
    log.say('==> testing')
    log.write('one\ntwo \u001b[31mred\u001b[0m\u0007\nhalf a li')
    await new Promise<void>((resolve) => {
      end = resolve
    })
    throw new DormouseError('setup_failed', 'because\u001b[2J')
  })
  await templates.open()
  expect((await templates.build(description, caller)).state).toBe('building')
  expect((await templates.get('big', caller)).logTail).toBe('==> testing\none\ntwo red\nhalf a li')
  expect((await templates.get('big', caller)).progress).toBe('testing')
  await expect(templates.get('big', { keyId: 'other', isAdmin: false })).rejects.toThrow(/no template/)
  end()
  await expect.poll(async () => (await templates.get('big', caller)).state).toBe('failed')
  expect((await templates.get('big', caller)).error).toBe('because [2J')
})

it('a template that the host builds meanwhile is seen, used and removed without a restart', async () => {
  const onHost = [python]
  const templates = service(async () => Promise.reject(new Error('unused')), [], {
    list: async () => [...onHost],
    remove: async (name) => {
      onHost.splice(
        onHost.findIndex((one) => one.name === name),
        1,
      )
    },
  })
  await templates.open()
  onHost.push({ ...python, name: 'science' })
  const { items } = await templates.list({ limit: 10 }, caller)
  expect(items.map(({ name, source }) => [name, source])).toEqual([
    ['python', 'built_in'],
    ['science', 'host'],
  ])
  expect(await templates.get('science', caller)).toMatchObject({ state: 'ready', source: 'host' })
  await expect(templates.build({ ...description, name: 'science' }, caller)).rejects.toThrow(/already/)
  await expect(templates.delete('science', caller)).rejects.toMatchObject({ code: 'scope_missing' })
  const admin = { keyId: 'admin', isAdmin: true }
  await expect(templates.delete('python', admin)).rejects.toMatchObject({ code: 'in_use' })
  await templates.delete('science', admin)
  await expect(templates.get('science', caller)).rejects.toMatchObject({ code: 'template_not_found' })
})

it('a built-in template is of every key, is built on like one of the host, and no key deletes or replaces it', async () => {
  const built = {
    snapshotId: 'sn-2222222222222222',
    filesId: 'sn-3333333333333333',
    materials: undefined,
  } as const
  const templates = service(async () => built)
  await templates.rebuild({ ...description, name: 'node', description: 'as built', from: 'python' })
  expect(await templates.get('node', caller)).toMatchObject({
    state: 'ready',
    source: 'built_in',
    from: 'python',
  })
  await expect(templates.build({ ...description, name: 'node' }, caller)).rejects.toMatchObject({
    code: 'name_taken',
  })
  for (const isAdmin of [false, true])
    await expect(templates.delete('node', { ...caller, isAdmin })).rejects.toMatchObject({ code: 'in_use' })
  expect(await templates.build({ ...description, from: 'node' }, caller)).toMatchObject({ from: 'node' })
})

it('a built-in template is current until its description or its base changes', async () => {
  const built = {
    snapshotId: 'sn-2222222222222222',
    filesId: 'sn-3333333333333333',
    materials: undefined,
  } as const
  let createdAt = new Date(0).toISOString()
  const templates = service(async () => built, [], { list: async () => [{ ...python, createdAt }] })
  const catalog = new TemplateCatalog(new TemplateRows(db))
  const node = { ...description, name: 'node', description: 'version 1', from: 'python' }
  const isCurrent = (asked = node) =>
    new BuiltInTemplates({
      catalog: new TemplateCatalog(new TemplateRows(db)),
      service: templates,
      now: () => 0,
    }).isCurrent(asked)
  expect(await isCurrent()).toBe(false)
  new BuiltInTemplates({ catalog, service: templates, now: () => 0 }).fail(
    node,
    new DormouseError('no_space', 'full'),
  )
  expect(await isCurrent()).toBe(false)
  await templates.rebuild(node)
  expect(await isCurrent()).toBe(true)
  expect(await isCurrent({ ...node, description: 'version 2' })).toBe(false)
  createdAt = new Date(1000).toISOString()
  expect(await isCurrent()).toBe(false)
})

it('a built-in template that waits is listed, says so, and cannot be used yet', async () => {
  const catalog = new TemplateCatalog(new TemplateRows(db))
  const templates = service(async () => Promise.reject(new Error('unused')), [], {}, catalog)
  await templates.open()
  const builtIns = new BuiltInTemplates({ catalog, service: templates, now: () => 0 })
  builtIns.announce({ ...description, name: 'data' })
  const waiting = { state: 'building', source: 'built_in', progress: 'waiting for other builds' }
  expect(await templates.get('data', caller)).toMatchObject(waiting)
  expect(catalog.notReady('data', caller.keyId)?.message).toBe('The template "data" is still being built.')
  expect(catalog.notReady('none', caller.keyId)).toBeUndefined()
  // The next server decides again.
  expect(new TemplateCatalog(new TemplateRows(db)).find('data', 'dormouse')).toBeUndefined()
})
