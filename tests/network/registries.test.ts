import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { buildTemplate } from '../server/build-template.ts'
import { ServerProcess } from '../server/server-process.ts'

const isWanted = process.env['DORMOUSE_TEST_REGISTRIES'] === '1'

// Skip: the only tests that need the internet, or the mirrors of this host; DORMOUSE_TEST_REGISTRIES=1 runs them.
describe.runIf(isWanted)('on an ordinary server', () => {
  let server: ServerProcess
  let id: string
  const shell = async (code: string) => {
    const answer = await server.ok(`/v1/sandboxes/${id}/run`, { json: { code, language: 'bash' } })
    if (answer.exitCode !== 0) throw new Error(answer.stdout + answer.stderr)
    return answer.stdout as string
  }
  beforeAll(async () => {
    server = await ServerProcess.start()
    id = (await server.ok('/v1/sandboxes', { json: { idleTimeoutMs: 0 } })).id
  })
  afterAll(() => server?.cleanUp())

  test('apt-get installs a package', async () => {
    await shell('apt-get install -y --no-install-recommends hello')
    expect(await shell('hello')).toBe('Hello, world!\n')
    const { counters, denied } = await server.ok(`/v1/sandboxes/${id}/network`)
    expect(counters.bytesIn).toBeGreaterThan(50_000)
    expect(denied).toEqual([])
  }, 300_000)

  test('a build of a template installs a package, reaching nothing but registries', async () => {
    const template = await buildTemplate(server, { name: 'hello', packages: ['hello'] })
    expect(template).toMatchObject({ state: 'ready' })
    const { items } = await server.ok('/v1/templates/hello/materials')
    expect(items).toContainEqual(
      expect.objectContaining({ name: 'hello', sha256: expect.stringMatching(/^[0-9a-f]{64}$/) }),
    )
    const { stdout } = await server.ok('/v1/run', {
      json: { template: 'hello', code: 'hello', language: 'bash' },
    })
    expect(stdout).toBe('Hello, world!\n')
    await server.ok('/v1/templates/hello', { method: 'DELETE' })
  }, 300_000)

  // Skip: hosts without an index of Python packages exist; DORMOUSE_TEST_PIP=1 says that this one has one.
  test.runIf(process.env['DORMOUSE_TEST_PIP'] === '1')(
    'pip installs a package',
    async () => {
      await shell('pip install --no-cache-dir six==1.17.0 --target /opt/more')
      expect(await shell('PYTHONPATH=/opt/more python3 -c "import six; print(six.__file__)"')).toContain(
        '/opt/more/',
      )
    },
    300_000,
  )
})
