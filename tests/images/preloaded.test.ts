import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { buildTemplate } from '../server/build-template.ts'
import { ServerProcess } from '../server/server-process.ts'

const MINUTES = 600_000
vi.setConfig({ testTimeout: MINUTES, hookTimeout: MINUTES })

const DOCKERFILE = `FROM template:python
RUN apt-get update && apt-get install -y --no-install-recommends default-jdk-headless
RUN mkdir -p /srv/web && echo hello > /srv/web/greeting
`
const JVM = { start: 'jwebserver -b 127.0.0.1 -p 8000 -d /srv/web', ready: { port: 8000 } }

// Skip: Java comes from Debian, 250 MB of packages; DORMOUSE_TEST_REGISTRIES=1 runs these tests.
describe.runIf(process.env['DORMOUSE_TEST_REGISTRIES'] === '1')('a template with a JVM that runs', () => {
  let server: ServerProcess
  beforeAll(async () => {
    server = await ServerProcess.start()
    const built = await buildTemplate(server, { name: 'jvm', dockerfile: DOCKERFILE, ...JVM })
    expect(built.error).toBeUndefined()
  })
  afterAll(() => server?.cleanUp())

  const sh = async (id: string, code: string) =>
    (await server.ok(`/v1/sandboxes/${id}/run`, { json: { code, language: 'bash' } })).stdout
  const get = (id: string) => sh(id, 'curl -s http://127.0.0.1:8000/greeting')
  const jvm = (id: string) => sh(id, 'pgrep -x jwebserver')

  test('gives every sandbox one that answers, and answers after a sleep and in a fork', async () => {
    const [{ id }, other] = await Promise.all(
      [0, 1].map(() => server.ok('/v1/sandboxes', { json: { template: 'jvm' } })),
    )
    expect(await get(id)).toBe('hello\n')
    expect(await get(other.id)).toBe('hello\n')
    const pid = await jvm(id)
    expect(pid).toMatch(/^\d+\n$/)
    expect(await jvm(other.id)).toBe(pid)
    await server.ok(`/v1/sandboxes/${id}/standby`, { json: { tier: 'stored' } })
    expect(await get(id)).toBe('hello\n')
    expect(await jvm(id)).toBe(pid)
    const { children } = await server.ok(`/v1/sandboxes/${id}/fork`, { json: { count: 1 } })
    expect(await get(children[0].id)).toBe('hello\n')
  })
})
