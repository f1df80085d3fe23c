import { mkdtemp, readdir, rm, symlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from '@photostructure/sqlite'
import { Dormouse, DormouseError, Template } from 'dormouse'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { runLauncher } from '../cli/command-line.ts'
import { McpClient } from '../mcp/mcp-client.ts'
import { PYTHON, runPython } from '../python-sdk/run-python.ts'
import { buildTemplate } from '../server/build-template.ts'
import { HERE, ServerProcess } from '../server/server-process.ts'
import { testDataDir } from '../test-data-dir.ts'

const start = 'exec python3 -m http.server $PORT'
const SERVE = { port: 8000, template: 'python', start }
const UNAVAILABLE = 'isolation_unavailable'

let server: ServerProcess
let toolsDir: string
beforeAll(async () => {
  // The tools of the host without those for virtual machines.
  toolsDir = await mkdtemp(join(tmpdir(), 'dormouse-tools-'))
  for (const name of await readdir(testDataDir))
    if (name !== 'microvm') await symlink(join(testDataDir, name), join(toolsDir, name))
  server = await ServerProcess.start({}, { ...HERE, toolsDir })
})
afterAll(async () => {
  await server?.cleanUp()
  await rm(toolsDir, { recursive: true, force: true })
})

// biome-ignore lint/suspicious/noExplicitAny: the surfaces return different types
type Asked = (isolation: 'process' | 'microvm') => Promise<any>

interface Requests {
  /** Each returns what was made, as JSON, or throws an object with the code of the refusal. */
  readonly deploy: Asked
  readonly job: Asked
  readonly template: Asked
  /** Returns what the code has printed. */
  readonly runOnce: Asked
}

function overHttp(): Requests {
  const send = async (method: string, path: string, json: object) => {
    const { status, body } = await server.call(path, { method, json })
    if (status >= 300) throw body.error
    return body
  }
  return {
    deploy: (isolation) => send('PUT', '/v1/services/kept', { ...SERVE, isolation }),
    job: (isolation) => send('POST', '/v1/jobs', { code: 'item', inputs: [1], isolation }),
    template: (isolation) => send('POST', '/v1/templates', { name: 'mine', commands: ['true'], isolation }),
    runOnce: async (isolation) =>
      (await send('POST', '/v1/run', { code: 'print(6 * 7)', isolation })).stdout.trim(),
  }
}

function overTypeScript(): Requests {
  const client = new Dormouse({ url: server.url, apiKey: server.key })
  return {
    deploy: (isolation) => client.services.deploy('kept', { ...SERVE, isolation }, { background: true }),
    job: (isolation) => client.jobs.create({ code: 'item', inputs: [1], isolation }),
    template: (isolation) =>
      client.templates.create(
        Template.fromTemplate('python').run('true').isolation(isolation).request('mine'),
      ),
    runOnce: async (isolation) => (await client.runOnce('print(6 * 7)', { isolation })).stdout.trim(),
  }
}

const IN_PYTHON = `
import dataclasses, json, sys
from dormouse import Client, DormouseError, Template

kind = sys.argv[2]
with Client() as client:
    calls = {
        "deploy": lambda: client.services.deploy(
            "kept", port=8000, template="python", start=sys.argv[3], isolation=kind, background=True
        ),
        "job": lambda: client.jobs.create("item", [1], isolation=kind),
        "template": lambda: client.templates.create("mine", commands=["true"], isolation=kind),
        "runOnce": lambda: client.run_once("print(6 * 7)", isolation=kind).stdout.strip(),
    }
    try:
        made = calls[sys.argv[1]]()
        print(json.dumps(made if isinstance(made, str) else dataclasses.asdict(made), default=str))
    except DormouseError as error:
        print(json.dumps({"code": error.code}))
`

function overPython(): Requests {
  const env = { DORMOUSE_URL: server.url, DORMOUSE_API_KEY: server.key }
  const call =
    (name: string): Asked =>
    async (isolation) => {
      const { code, output } = await runPython(PYTHON, ['-c', IN_PYTHON, name, isolation, start], env)
      expect(code, output).toBe(0)
      const answer = JSON.parse(output)
      if (answer.code !== undefined) throw answer
      return answer
    }
  return { deploy: call('deploy'), job: call('job'), template: call('template'), runOnce: call('runOnce') }
}

function onCommandLine(): Requests {
  const env = { ...(process.env as Record<string, string>), DORMOUSE_DATA: server.factory.stateDir }
  const run = async (...args: string[]) => {
    const { status, stdout, stderr } = await runLauncher([...args, '--json'], { env })
    if (status !== 0) throw JSON.parse(stderr.trim().split('\n').at(-1) ?? '').error
    return stdout
  }
  const json = async (...args: string[]) => JSON.parse(await run(...args))
  const serve = ['--template', 'python', '--name', 'kept', '--port', '8000', '--start', start]
  return {
    deploy: (isolation) => json('deploy', ...serve, '--isolation', isolation),
    job: (isolation) => json('job', 'run', 'item', '--input', '1', '--detach', '--isolation', isolation),
    template: (isolation) => json('template', 'create', 'mine', '--run', 'true', '--isolation', isolation),
    runOnce: async (isolation) =>
      (await json('run', '--new', 'print(6 * 7)', '--isolation', isolation)).stdout.trim(),
  }
}

const SURFACES = [
  ['HTTP', overHttp],
  ['the TypeScript SDK', overTypeScript],
  ['the Python SDK', overPython],
  ['the command line', onCommandLine],
] as const

describe.each(SURFACES)('over %s', (_surface, open) => {
  let requests: Requests
  afterEach(() => server.clear())
  beforeAll(() => {
    requests = open()
  })

  test('deployments, jobs, templates and single runs say which isolation their sandboxes have', async () => {
    const { versions } = await requests.deploy('process')
    expect(versions[0]).toMatchObject({ isolation: 'process' })
    const job = await requests.job('process')
    expect(job).toMatchObject({ isolation: 'process' })
    expect(await requests.template('process')).toMatchObject({ name: 'mine', isolation: 'process' })
    expect(await requests.runOnce('process')).toBe('42')
    await expect
      .poll(async () => (await server.ok(`/v1/jobs/${job.id}`)).state, { timeout: 30_000 })
      .toBe('finished')
  }, 90_000)

  test.each(['deploy', 'job', 'template', 'runOnce'] as const)(
    '%s is refused with an isolation that this server does not have, and leaves nothing',
    async (name) => {
      await expect(requests[name]('microvm')).rejects.toMatchObject({ code: UNAVAILABLE })
      for (const kind of ['services', 'sandboxes']) expect((await server.ok(`/v1/${kind}`)).items).toEqual([])
      expect((await server.call('/v1/templates/mine')).status).toBe(404)
    },
  )
})

test('over MCP, a sandbox says which isolation it has', async () => {
  await using mcp = await McpClient.overHttp(server)
  const made = await mcp.call('create_sandbox', { isolation: 'process' })
  expect(made.structuredContent).toMatchObject({ isolation: 'process' })
  const { sandboxes } = (await mcp.call('list_sandboxes')).structuredContent
  expect(sandboxes).toMatchObject([{ isolation: 'process' }])
  await mcp.call('delete_sandbox', { sandbox: made.structuredContent.id })
})

test('replicas and sandboxes of tasks have the isolation of the request', async () => {
  const client = new Dormouse({ url: server.url, apiKey: server.key })
  const { replicas } = await client.services.deploy('kept', { ...SERVE, isolation: 'process' })
  expect(await client.getSandbox(replicas.items[0]?.sandboxId ?? '')).toMatchObject({ isolation: 'process' })
  await client.services.delete('kept')
  const wrong = client.jobs.create({ code: 'item', inputs: [1], isolation: 'vm' as 'microvm' })
  await expect(wrong).rejects.toSatisfy(
    (error) => error instanceof DormouseError && error.code === 'invalid_argument',
  )
})

test('the isolation of a template is the default for its sandboxes, also after a restart', async () => {
  const template = await buildTemplate(server, { name: 'strict', commands: ['true'], isolation: 'process' })
  expect(template).toMatchObject({ state: 'ready', isolation: 'process' })
  await server.stop()
  // As if this host had lost its tools for virtual machines since the build.
  const db = new DatabaseSync(join(server.factory.stateDir, 'state.db'))
  db.prepare("UPDATE templates SET isolation = 'microvm' WHERE name = 'strict'").run()
  db.close()
  await server.begin()
  expect(await server.ok('/v1/templates/strict')).toMatchObject({ isolation: 'microvm' })
  const refused = await server.call('/v1/sandboxes', { json: { template: 'strict' } })
  expect(refused.body.error).toMatchObject({ code: UNAVAILABLE })
  const { id, isolation } = await server.ok('/v1/sandboxes', {
    json: { template: 'strict', isolation: 'process' },
  })
  expect(isolation).toBe('process')
  await server.ok(`/v1/sandboxes/${id}`, { method: 'DELETE' })
}, 60_000)
