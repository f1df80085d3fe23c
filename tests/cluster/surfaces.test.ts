import { Dormouse, Sandbox } from 'dormouse'
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest'
import { runLauncher } from '../cli/command-line.ts'
import { Browser } from '../page/browser.ts'
import { PYTHON, runPython } from '../python-sdk/run-python.ts'
import type { ServerProcess } from '../server/server-process.ts'
import { TestCluster } from './test-cluster.ts'

// biome-ignore lint/suspicious/noExplicitAny: the surfaces return different types
type Json = any

/** What operators do, over one surface. Each returns JSON, or throws an object with the code of the refusal. */
interface Operator {
  readonly nodes: () => Promise<Json>
  readonly cordon: (node: string) => Promise<Json>
  readonly uncordon: (node: string) => Promise<Json>
  readonly drain: (node: string) => Promise<Json>
  readonly move: (sandbox: string, node: string) => Promise<Json>
  /** Asleep in the depot. */
  readonly replicate: (sandbox: string) => Promise<Json>
}

let cluster: TestCluster
let one: ServerProcess
let two: ServerProcess
let key: string
/** The ids of the hosts. */
let first: string
let second: string

beforeAll(async () => {
  cluster = await TestCluster.start({ hosts: 2, logLevel: 'fatal' })
  ;[one, two] = cluster.hosts as [ServerProcess, ServerProcess]
  key = one.key
  first = await nodeOf(one)
  second = await nodeOf(two)
  for (const host of [one, two])
    await vi.waitFor(async () => expect((await host.ok('/v1/nodes', { key })).items).toHaveLength(2), {
      timeout: 20_000,
    })
})
afterAll(() => cluster?.cleanUp())

const nodeOf = async (host: ServerProcess): Promise<string> =>
  (await host.ok('/v1/nodes', { key })).items.find(({ isSelf }: Json) => isSelf).id
const placeOf = async (id: string) =>
  (await one.fetch(`/v1/sandboxes/${id}`, { key })).headers.get('dormouse-host') ?? one.url

function overHttp(): Operator {
  const send = async (path: string, json?: object) => {
    const { status, body } = await one.call(path, { ...(json && { json }), key })
    if (status >= 300) throw body.error
    return body
  }
  return {
    nodes: async () => (await send('/v1/nodes')).items,
    cordon: (node) => send(`/v1/nodes/${node}/cordon`, {}),
    uncordon: (node) => send(`/v1/nodes/${node}/cordon`, { cordoned: false }),
    drain: (node) => send(`/v1/nodes/${node}/drain`, {}),
    move: (id, node) => send(`/v1/sandboxes/${id}/move`, { node }),
    replicate: (id) => send(`/v1/sandboxes/${id}/standby`, { tier: 'stored', durability: 'cluster' }),
  }
}

function overTypeScript(): Operator {
  const client = new Dormouse({ url: one.url, apiKey: key })
  const { nodes } = client
  return {
    nodes: () => nodes.list(),
    cordon: (node) => nodes.cordon(node),
    uncordon: (node) => nodes.cordon(node, { cordoned: false }),
    drain: (node) => nodes.drain(node),
    move: async (id, node) => (await Sandbox.connect(id, { client })).move(node),
    async replicate(id) {
      const sandbox = await Sandbox.connect(id, { client })
      await sandbox.idle({ tier: 'stored', durability: 'cluster' })
      return sandbox.info
    },
  }
}

const IN_PYTHON = `
import dataclasses, json, sys
from dormouse import Client, DormouseError, Sandbox

def camel(name):
    first, *others = name.split("_")
    return first + "".join(other.title() for other in others)

def named(value):
    if isinstance(value, dict):
        return {camel(name): named(one) for name, one in value.items() if one is not None}
    return [named(one) for one in value] if isinstance(value, (list, tuple)) else value

method, *args = sys.argv[1:]
with Client() as client:
    calls = {
        "nodes": lambda: [dataclasses.asdict(node) for node in client.nodes.list()],
        "cordon": lambda node: dataclasses.asdict(client.nodes.cordon(node)),
        "uncordon": lambda node: dataclasses.asdict(client.nodes.cordon(node, cordoned=False)),
        "drain": lambda node: dataclasses.asdict(client.nodes.drain(node)),
        "move": lambda id, node: dataclasses.asdict(Sandbox.connect(id, client=client).move(node)),
        "replicate": lambda id: dataclasses.asdict(Sandbox.connect(id, client=client).standby("stored", "cluster")),
    }
    try:
        print(json.dumps(named(calls[method](*args)), default=str))
    except DormouseError as error:
        print(json.dumps({"code": error.code}))
`

function overPython(): Operator {
  const env = { DORMOUSE_URL: one.url, DORMOUSE_API_KEY: key }
  const call =
    (name: string) =>
    async (...args: string[]) => {
      const { code, output } = await runPython(PYTHON, ['-c', IN_PYTHON, name, ...args], env)
      expect(code, output).toBe(0)
      const answer = JSON.parse(output)
      if (answer.code !== undefined) throw answer
      return answer
    }
  return {
    ...{ nodes: call('nodes'), cordon: call('cordon'), uncordon: call('uncordon') },
    ...{ drain: call('drain'), move: call('move'), replicate: call('replicate') },
  }
}

const environment = () => ({
  ...{ PATH: process.env['PATH'] ?? '', HOME: one.factory.stateDir },
  ...{ DORMOUSE_URL: one.url, DORMOUSE_API_KEY: key },
})

function onCommandLine(): Operator {
  const json = async (...args: string[]) => {
    const { status, stdout, stderr } = await runLauncher([...args, '--json'], { env: environment() })
    if (stdout !== '') return JSON.parse(stdout)
    expect(status).not.toBe(0)
    throw JSON.parse(stderr.trim().split('\n').at(-1) ?? '').error
  }
  return {
    nodes: async () => (await json('nodes')).items,
    cordon: (node) => json('cordon', node),
    uncordon: (node) => json('cordon', node, '--undo'),
    drain: (node) => json('drain', node),
    move: (id, node) => json('move', id, node),
    replicate: (id) => json('standby', id, '--stored', '--cluster'),
  }
}

const SURFACES = [
  ['HTTP', overHttp],
  ['the TypeScript SDK', overTypeScript],
  ['the Python SDK', overPython],
  ['the command line', onCommandLine],
] as const

/** A sandbox of the first host that remembers a value. */
async function make(value: string): Promise<string> {
  const { id } = await one.ok('/v1/sandboxes', { json: {}, key })
  await one.ok(`/v1/sandboxes/${id}/run`, { json: { code: `value = "${value}"` }, key })
  return id
}

async function clear(): Promise<void> {
  for (const host of [one, two]) {
    await host.ok(`/v1/nodes/${await nodeOf(host)}/cordon`, { json: { cordoned: false }, key })
  }
  for (const { id } of (await one.ok('/v1/sandboxes', { key })).items)
    await one.call(`/v1/sandboxes/${id}`, { method: 'DELETE', key })
}

describe.each(SURFACES)('over %s', (surface, open) => {
  let operator: Operator
  beforeAll(() => {
    operator = open()
  })
  afterEach(clear)

  it('an operator sees the hosts, moves a sandbox, cordons a host and drains it', async () => {
    const inOrder = (items: Json[]) => items.map(steady).sort((a, b) => a.id.localeCompare(b.id))
    expect(inOrder(await operator.nodes())).toEqual(inOrder(await overHttp().nodes()))

    const id = await make(surface)
    expect(await operator.replicate(id)).toMatchObject({ state: 'standby', tier: 'stored', replicated: true })
    expect(await operator.move(id, second)).toEqual({ sandboxId: id, node: second })
    const { stdout } = await one.ok(`/v1/sandboxes/${id}/run`, { json: { code: 'print(value)' }, key })
    expect(stdout).toBe(`${surface}\n`)
    expect(await placeOf(id)).toBe(two.url)

    // The other host does what this one is asked to do.
    expect(await operator.cordon(second)).toMatchObject({ id: second, isCordoned: true })
    const other = await make('elsewhere')
    expect(await placeOf(other)).toBe(one.url)
    const drained = await operator.drain(second)
    expect(drained).toEqual({ moved: [{ sandboxId: id, node: first }], left: [] })
    const state = async () => (await operator.nodes()).find((node: Json) => node.id === second)
    await expect.poll(state).toMatchObject({ isCordoned: true, drain: { total: 1, moved: 1, left: 0 } })
    expect(await operator.uncordon(second)).toMatchObject({ id: second, isCordoned: false })
    await expect.poll(async () => (await state()).drain).toBeUndefined()
  })

  it('a host that is not there, and a drain without another host, are refused with the reason', async () => {
    const id = await make('stays')
    await expect(operator.move(id, 'host-missing')).rejects.toMatchObject({ code: 'not_found' })
    await expect(operator.cordon('host-missing')).rejects.toMatchObject({ code: 'not_found' })
    await expect(operator.drain('host-missing')).rejects.toMatchObject({ code: 'not_found' })
    await overHttp().cordon(second)
    const reason = `No other node can take the sandbox. ${second}: it is cordoned.`
    expect(await operator.drain(first)).toEqual({ moved: [], left: [{ sandboxId: id, reason }] })
    const stays = [{ sandboxId: id, reason }]
    const shown = async () => (await operator.nodes()).find((node: Json) => node.id === first)
    await expect.poll(shown).toMatchObject({ drain: { total: 1, moved: 0, left: 1, stays } })
  })
})

/** What does not change between two calls. */
function steady({ load: _load, memory, disk, startedAt, ...node }: Json): Json {
  const at = new Date(startedAt).toISOString()
  return { ...node, startedAt: at, memory: memory.totalBytes, disk: disk.totalBytes }
}

it('the command line says which sandboxes stay, and fails when one does', async () => {
  const id = await make('stays')
  await overHttp().cordon(second)
  const drained = await runLauncher(['drain', first], { env: environment() })
  expect(drained).toMatchObject({ status: 1, stderr: expect.stringContaining('0 moved, 1 left.') })
  expect(drained.stdout).toContain(`${id}  stays: No other node can take the sandbox.`)
  const { stdout, stderr } = await runLauncher(['nodes'], { env: environment() })
  expect(stdout).toMatch(new RegExp(`^${first}\\s+alive, cordoned, 0 of 1 moved, 1 stay, this one `, 'm'))
  expect(stderr).toContain(`${id} stays on ${first}: No other node`)
  await clear()
})

it('the numbers of the whole cluster are those of its hosts and sandboxes', async () => {
  const id = await make('counted')
  await overHttp().replicate(id)
  for (const host of [one, two]) {
    const numbers = async () => await (await host.fetch('/metrics', { key })).text()
    await expect.poll(numbers).toMatch(/^dormouse_cluster_nodes\{state="alive"\} 2$/m)
    await expect.poll(numbers).toMatch(/^dormouse_cluster_sandboxes\{state="standby"\} 1$/m)
    await expect.poll(numbers).toMatch(/^dormouse_cluster_unreplicated_sandboxes 0$/m)
  }
  await clear()
})

it('the page shows the hosts with their state', async () => {
  await overHttp().cordon(second)
  await using browser = await Browser.open()
  const page = await browser.signedIn(one, '/page/server')
  const hosts = page.getByRole('table', { name: 'Hosts of the cluster' })
  await hosts.getByRole('row', { name: new RegExp(`${first} alive, this one .*${one.url}`) }).waitFor()
  await hosts.getByRole('row', { name: new RegExp(`${second} alive, cordoned .*${two.url}`) }).waitFor()
  expect(browser.problems).toEqual([])
  await clear()
})
