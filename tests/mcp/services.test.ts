import { ERROR_META } from '@dormouse/mcp'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { ServerProcess } from '../server/server-process.ts'
import { McpClient } from './mcp-client.ts'

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

const start = 'mkdir -p /srv && echo $WORD > /srv/index.html && exec python3 -m http.server -d /srv $PORT'
const deploy = (WORD: string, more: object = {}) =>
  mcp.call('deploy_service', { name: 'web', port: 8000, template: 'python', start, env: { WORD }, ...more })
const manage = (action: string, more: object = {}) => mcp.call('services', { action, ...more })
const ask = async () => (await server.fetch('/v1/services/web/http/')).text()

test('a service is deployed, listed, rolled back and deleted, and its log is searched', async () => {
  const { structuredContent: first } = await deploy('one')
  expect(first).toMatchObject({ name: 'web', version: 1, versions: [{ version: 1, state: 'ready' }] })
  expect(first.url).toMatch(/^http:\/\/sv-\w+\.localhost:\d+\/$/)
  expect(await ask()).toBe('one\n')
  // Without waiting for it; the list shows when it serves.
  await deploy('two', { waitMs: 0, public: true })
  await expect
    .poll(async () => (await manage('list')).structuredContent.services, { timeout: 60_000 })
    .toMatchObject([{ name: 'web', version: 2, public: true }])
  expect(await ask()).toBe('two\n')
  const { structuredContent: logs } = await manage('logs', { name: 'web', search: 'serves', tail: 5 })
  const lines = logs.lines.map(({ version, stream, text }: Record<string, unknown>) => [
    version,
    stream,
    text,
  ])
  expect(lines).toEqual([1, 2].map((version) => [version, 'system', `version ${version} serves`]))
  const { structuredContent: back } = await manage('rollback', { name: 'web' })
  expect(back.services).toMatchObject([{ version: 1 }])
  expect(await ask()).toBe('one\n')
  expect((await manage('rollback', { name: 'web', version: 2 })).structuredContent.services).toMatchObject([
    { version: 2 },
  ])
  expect((await manage('delete', { name: 'web' })).structuredContent).toEqual({ services: [] })
  expect((await server.ok('/v1/services')).items).toEqual([])
}, 120_000)

test('what cannot serve is an error that says why, and a missing name is one, too', async () => {
  const failed = await mcp.call('deploy_service', { name: 'bad', port: 8000, start: 'echo oops; exit 3' })
  expect(failed).toMatchObject({ isError: true, _meta: { [ERROR_META]: { code: 'setup_failed' } } })
  expect(failed._meta?.[ERROR_META]).toMatchObject({ message: expect.stringMatching(/exit code 3.*oops/s) })
  const nameless = await manage('logs')
  expect(nameless).toMatchObject({ isError: true, _meta: { [ERROR_META]: { code: 'invalid_argument' } } })
  await manage('delete', { name: 'bad' })
}, 60_000)

test('a sandbox is created with the connections that the call asks for', async () => {
  const { structuredContent } = await mcp.call('create_sandbox', {
    keepConnectionsMinutes: 1.5,
    wakeOnData: true,
  })
  const path = `/v1/sandboxes/${structuredContent.id}`
  expect((await server.ok(path)).connections).toEqual({ keepAsleepMs: 90_000, wakeOnData: true })
  await server.call(path, { method: 'DELETE' })
})
