import { readFile } from 'node:fs/promises'
import { afterAll, beforeAll, expect, it, vi } from 'vitest'
import { makeLayer } from '../images/make-image.ts'
import { Registry } from '../images/registry.ts'
import { busyboxLayer } from '../images/test-images.ts'
import { testNode } from '../languages/put-node.ts'
import { buildTemplate } from '../server/build-template.ts'
import type { ServerProcess } from '../server/server-process.ts'
import { LEASE_MS, TestCluster } from './test-cluster.ts'

/** Every template is started once, which takes long on a busy machine. */
const MINUTES = 300_000
vi.setConfig({ testTimeout: MINUTES, hookTimeout: MINUTES })

let registry: Registry
let cluster: TestCluster
let one: ServerProcess
let two: ServerProcess
let key: string

beforeAll(async () => {
  registry = await Registry.start()
  cluster = await TestCluster.start({
    ...{ hosts: 2, idleTimeoutMs: 0, images: { registriesConf: registry.conf } },
    builds: { atOnce: 1, memoryBytes: 512 * 1024 ** 2 },
  })
  ;[one, two] = cluster.hosts as [ServerProcess, ServerProcess]
  key = one.key
})

afterAll(async () => {
  await cluster?.cleanUp()
  await registry?.cleanUp()
})

// biome-ignore lint/suspicious/noExplicitAny: tests compare answers, they do not build on them
type Json = any

const ask = (host: ServerProcess, id: string, language: string, code: string): Promise<Json> =>
  host.call(`/v1/sandboxes/${id}/run`, { json: { code, language }, key }).catch(() => undefined)
const nodeOf = async (host: ServerProcess): Promise<string> =>
  (await host.ok('/v1/nodes', { key })).items.find(({ isSelf }: Json) => isSelf).id

/** A sandbox with something in the memory of a language, and what shows that it is still there. */
interface Filled {
  readonly id: string
  readonly language: string
  readonly look: string
  readonly shows: string
}

async function fromImage(): Promise<Filled> {
  const page = makeLayer([{ path: 'srv/index.html', content: 'from the image' }])
  const image = registry.push('contents:1', [busyboxLayer, page], { Env: ['PATH=/bin', 'WORD=word'] })
  const { state, error } = await buildTemplate(one, { name: 'contents', image }, key)
  expect({ state, error }).toMatchObject({ state: 'ready' })
  const { id } = await one.ok('/v1/sandboxes', { json: { template: 'contents' }, key })
  const fill = 'import os; x = "memory"; open("/srv/file", "w").write("file")'
  expect((await ask(one, id, 'python', fill)).body).toMatchObject({ exitCode: 0 })
  const look =
    'print(x, os.environ["WORD"], open("/srv/file").read(), open("/srv/index.html").read(), os.path.exists("/bin/busybox"))'
  return { id, language: 'python', look, shows: 'memory word file from the image True\n' }
}

async function withJavaScript(): Promise<Filled> {
  const { id } = await one.ok('/v1/sandboxes', { json: {}, key })
  const path = `/v1/sandboxes/${id}/files?path=/usr/local/bin/node&mode=755`
  await one.ok(path, { method: 'PUT', body: await readFile(await testNode()), key })
  const code =
    'let n = 40; class Counter { #n = n; next() { return ++this.#n } }; const counter = new Counter()'
  expect((await ask(one, id, 'javascript', code)).body).toMatchObject({ exitCode: 0 })
  const look = 'console.log(n, typeof counter.next(), setTimeout.name)'
  return { id, language: 'javascript', look, shows: '40 number setTimeout\n' }
}

it('sandboxes of an image and with JavaScript move and are taken over with layers, memory and files', async () => {
  await expect.poll(async () => (await two.call('/v1/nodes', { key })).body.items?.length).toBe(2)
  const all = [await fromImage(), await withJavaScript()]
  const shown = async (host: ServerProcess, { id, language, look }: Filled) =>
    (await ask(host, id, language, look))?.body.stdout
  for (const filled of all) {
    expect(await shown(one, filled)).toBe(filled.shows)
    await one.ok(`/v1/sandboxes/${filled.id}/move`, { json: { node: await nodeOf(two) }, key })
    expect(await shown(two, filled)).toBe(filled.shows)
    const { headers } = await one.call(`/v1/sandboxes/${filled.id}`, { key })
    expect(headers.get('dormouse-host')).toBe(two.url)
    const json = { tier: 'stored', durability: 'cluster' }
    await two.ok(`/v1/sandboxes/${filled.id}/standby`, { json, key })
  }
  await two.kill()
  for (const filled of all)
    await expect.poll(() => shown(one, filled), { timeout: 20 * LEASE_MS, interval: 300 }).toBe(filled.shows)
  await two.begin()
  for (const { id } of all) await one.ok(`/v1/sandboxes/${id}`, { method: 'DELETE', key })
  // New ones of the template start on both hosts.
  for (const host of [one, two]) {
    const { id } = await host.ok('/v1/sandboxes', { json: { template: 'contents' }, key })
    expect((await ask(host, id, 'bash', 'cat /srv/index.html')).body.stdout).toBe('from the image')
    await host.call(`/v1/sandboxes/${id}`, { method: 'DELETE', key })
  }
})
