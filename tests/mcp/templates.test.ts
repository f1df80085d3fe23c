import { afterAll, beforeAll, expect, test } from 'vitest'
import { ServerProcess } from '../server/server-process.ts'
import { McpClient } from './mcp-client.ts'

/** A template is started once, which takes long on a busy machine. */
const BUILD_MS = 240_000

let server: ServerProcess
let mcp: McpClient
beforeAll(async () => {
  server = await ServerProcess.start()
  mcp = await McpClient.overHttp(server)
})
afterAll(async () => {
  await mcp?.end()
  await server?.cleanUp()
})

test('a build fails with the end of its log, is corrected, and its program runs in new sandboxes', {
  timeout: 2 * BUILD_MS,
}, async () => {
  const build = (command: string, more: object) =>
    mcp.call('create_template', {
      ...{ name: 'greeter', dockerfile: `FROM template:python\nRUN ${command}\n` },
      ...more,
    })
  expect(await build('echo too late && exit 3', { waitMs: BUILD_MS })).toMatchObject({
    isError: true,
    structuredContent: {
      state: 'failed',
      failedStep: expect.stringContaining('exit 3'),
      log: expect.stringContaining('too late'),
    },
  })
  const serving = {
    ...{ start: 'python3 -m http.server 8000 -d /srv', ready: { port: 8000 } },
    isolation: 'process',
  }
  const begun = await build('echo hello > /srv/greeting', { ...serving, waitMs: 0 })
  expect(begun.structuredContent).toMatchObject({ name: 'greeter', state: 'building' })
  const lines: string[] = []
  const onprogress = ({ message = '' }) => lines.push(message)
  const ready = await mcp.call('create_template', { name: 'greeter', waitMs: BUILD_MS }, { onprogress })
  expect(ready.structuredContent).toEqual({ name: 'greeter', state: 'ready' })
  expect(lines.length).toBeGreaterThan(0)
  expect((await server.ok('/v1/templates/greeter')).isolation).toBe('process')

  const { structuredContent } = await mcp.call('create_sandbox', { template: 'greeter' })
  const sandbox = structuredContent.id
  const command = 'curl -s http://127.0.0.1:8000/greeting'
  expect(await mcp.text('run_shell', { command, sandbox })).toBe('hello')
  expect(await mcp.text('delete_template', { name: 'greeter' })).toMatch(/^in_use: /)
  await mcp.call('delete_sandbox', { sandbox })
  const gone = await mcp.call('delete_template', { name: 'greeter' })
  expect(gone.structuredContent).toEqual({ name: 'greeter', deleted: true })
  expect(await mcp.text('create_template', { name: 'greeter' })).toMatch(/^template_not_found: /)
})

test('a template is made from a snapshot at once', async () => {
  await mcp.call('run_python', { code: 'tea = 3' })
  const { structuredContent: saved } = await mcp.call('snapshot_sandbox')
  const made = await mcp.call('create_template', { name: 'tea-room', snapshot: saved.id })
  expect(made.structuredContent).toEqual({ name: 'tea-room', state: 'ready' })
  const { structuredContent: created } = await mcp.call('create_sandbox', { template: 'tea-room' })
  expect(await mcp.text('run_python', { code: 'tea', sandbox: created.id })).toBe('3')
})

test.each([
  ['two bases', { from: 'python', dockerfile: 'FROM template:python' }, /^invalid_argument: image/],
  ['two conditions', { start: 'sleep 9', ready: { port: 1, log: 'x' } }, /^invalid_argument: ready/],
  ['a package that is none', { packages: ['-y'] }, /^invalid_argument: packages/],
  [
    'an isolation that does not exist',
    { from: 'python', isolation: 'vm' },
    /isolation.*"process"\|"microvm"/s,
  ],
  ['an unknown field', { files: ['x'] }, /^invalid_argument: /],
])('%s are refused', async (_what, fields, message) => {
  expect(await mcp.text('create_template', { name: 'refused', ...fields })).toMatch(message)
})
