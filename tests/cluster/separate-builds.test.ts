import { chmod, mkdtemp, readdir, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { prepareTemplate } from '@dormouse/engine-linux/setup'
import { afterAll, beforeAll, expect, it, vi } from 'vitest'
import type { ServerProcess } from '../server/server-process.ts'
import { BUILT_BY, makeOwnTemplate, removeOwnTemplate } from './own-template.ts'
import { LEASE_MS, TestCluster } from './test-cluster.ts'

// biome-ignore lint/suspicious/noExplicitAny: tests compare answers, they do not build on them
type Json = any

const DAY_MS = 24 * 3600 * 1000
const SLOW = { timeout: 30 * LEASE_MS, interval: 300 }
const asleep = { json: { tier: 'stored', durability: 'cluster' } }

let directory: string
let cluster: TestCluster
let one: ServerProcess
let two: ServerProcess
let key: string

/** Two hosts that were set up by themselves: each has a build of its own of the same template. */
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'dormouse-builds-'))
  // Programs run in these roots with the ids of sandboxes.
  await chmod(directory, 0o711)
  cluster = await TestCluster.start({ hosts: 0, idleTimeoutMs: 0 })
  for (const [index, name] of ['one', 'two'].entries()) {
    const builtAt = new Date(Date.UTC(2026, 0, 1) + index * DAY_MS)
    const toolsDir = await makeOwnTemplate(join(directory, name), name, builtAt)
    // Sandboxes of the other host boot.
    if (name === 'one') await prepareTemplate(toolsDir, 'python')
    await cluster.addHost({}, { toolsDir })
  }
  ;[one, two] = cluster.hosts as [ServerProcess, ServerProcess]
  key = one.key
  await vi.waitFor(
    async () => expect((await two.call('/v1/nodes', { key })).body.items).toHaveLength(2),
    SLOW,
  )
}, 120_000)

afterAll(async () => {
  await cluster?.cleanUp()
  for (const name of ['one', 'two']) await removeOwnTemplate(join(directory, name))
  await rm(directory, { recursive: true, force: true })
})

const run = async (host: ServerProcess, id: string, code: string): Promise<string> => {
  const { stdout, stderr } = await host.ok(`/v1/sandboxes/${id}/run`, { json: { code }, key })
  return `${stdout}${stderr}`.trim()
}
const nodeOf = async (host: ServerProcess): Promise<string> =>
  (await host.ok('/v1/nodes', { key })).items.find(({ isSelf }: Json) => isSelf).id
const placeOf = async (host: ServerProcess, id: string) =>
  (await host.fetch(`/v1/sandboxes/${id}`, { key })).headers.get('dormouse-host') ?? host.url
const move = async (from: ServerProcess, id: string, to: ServerProcess) =>
  await from.ok(`/v1/sandboxes/${id}/move`, { json: { node: await nodeOf(to) }, key })
const sleep = (host: ServerProcess, id: string) => host.ok(`/v1/sandboxes/${id}/standby`, { ...asleep, key })
const remove = (id: string) => two.call(`/v1/sandboxes/${id}`, { method: 'DELETE', key })

const READ = `print(value, open("${BUILT_BY}").read(), len(__import__("decimal").__doc__) > 0)`
async function make(host: ServerProcess, value: string): Promise<string> {
  const { id } = await host.ok('/v1/sandboxes', { json: {}, key })
  expect(await placeOf(host, id)).toBe(host.url)
  await run(host, id, `value = "${value}"`)
  return id
}

/** Builds of the template on a host, and what is left of fetches that ended too early. */
const buildsOf = async (name: string) =>
  (await readdir(join(directory, name, 'templates/python'))).filter((entry) =>
    /^(?:[0-9a-f]{16}|\.)/.test(entry),
  )

it('a sandbox moves to a host with another build of its template, without the template’s memory, and back', {
  timeout: 120_000,
}, async () => {
  const id = await make(one, 'moved')
  await move(one, id, two)
  expect(await run(two, id, READ)).toBe('moved one True')
  expect(await placeOf(two, id)).toBe(two.url)
  const fetched = (await buildsOf('two')).filter((build) => build.includes('.'))
  expect(fetched).toEqual([expect.stringMatching(/^[0-9a-f]{16}\.20260101000000000$/)])
  const linked = await linkedFiles(join(directory, 'two/templates/python', String(fetched[0])))
  expect(linked.length).toBeGreaterThan(0)
  // New sandboxes of the host are of its own build.
  const own = await make(two, 'new')
  expect(await run(two, own, READ)).toBe('new two True')
  await remove(own)
  await run(two, id, 'value = "back"')
  await move(two, id, one)
  expect(await run(one, id, READ)).toBe('back one True')
  expect((await buildsOf('one')).filter((build) => build.includes('.'))).toEqual([])
  await remove(id)
})

/** Memory files of the template that the only snapshot of the second host shares with a build. */
async function linkedFiles(build: string): Promise<string[]> {
  const inodesIn = async (parent: string) => {
    const found = new Map<number, string>()
    for (const snapshot of await readdir(parent))
      for (const name of await readdir(join(parent, snapshot, 'memory')).catch(() => []))
        found.set((await stat(join(parent, snapshot, 'memory', name))).ino, name)
    return found
  }
  const here = await inodesIn(join(two.factory.stateDir, 'snapshots'))
  return [...(await inodesIn(join(build, 'snapshots')))].flatMap(([ino, name]) =>
    here.has(ino) ? [name] : [],
  )
}

it('children of a fork go to a host with another build of their template', { timeout: 120_000 }, async () => {
  const id = await make(one, 'forked')
  await sleep(one, id)
  const cordon = async (cordoned: boolean) =>
    one.ok(`/v1/nodes/${await nodeOf(one)}/cordon`, { json: { cordoned }, key })
  await cordon(true)
  const { children } = await one.ok(`/v1/sandboxes/${id}/fork`, { json: { count: 2 }, key })
  for (const child of children) {
    expect(await placeOf(one, child.id)).toBe(two.url)
    expect(await run(two, child.id, READ)).toBe('forked one True')
  }
  await cordon(false)
  for (const { id: gone } of [{ id }, ...children]) await remove(gone)
})

it('sandboxes of a lost host continue on one with another build, in both directions', {
  timeout: 180_000,
}, async () => {
  const first = await make(one, 'of one')
  await sleep(one, first)
  await one.kill()
  const value = async (host: ServerProcess, id: string) =>
    (await host.call(`/v1/sandboxes/${id}/run`, { json: { code: READ }, key })).body.stdout
  await expect.poll(() => value(two, first), SLOW).toBe('of one one True\n')
  const second = await make(two, 'of two')
  await one.begin()
  await expect.poll(async () => (await one.call('/v1/nodes', { key })).body.items?.length, SLOW).toBe(2)
  for (const id of [first, second]) await sleep(two, id)
  await two.kill()
  await expect.poll(() => value(one, first), SLOW).toBe('of one one True\n')
  await expect.poll(() => value(one, second), SLOW).toBe('of two two True\n')
  await two.begin()
  for (const id of [first, second]) await remove(id)
})
