import { execFile } from 'node:child_process'
import { readdir } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { linuxFactory } from '../engine-linux/linux-factory.ts'
import { ServerProcess } from '../server/server-process.ts'
import { testDataDir } from '../test-data-dir.ts'

const root = fileURLToPath(new URL('../../', import.meta.url))
const execute = promisify(execFile)

describe('the example of the engine alone', async () => {
  const factory = await linuxFactory()
  afterAll(() => factory.cleanUp())

  test('does what it says, and leaves nothing', async () => {
    const program = `${root}examples/first-sleep/first-sleep.mjs`
    const { stdout } = await execute(process.execPath, [program, testDataDir, factory.stateDir])
    expect(stdout).toMatch(/^awake after \d+ ms\n499999500000 True\n/)
    expect(await factory.traces()).toEqual([])
  })
})

describe('examples with a server', async () => {
  const files = (await readdir(`${root}examples`, { recursive: true })).filter(
    // `tests/adapters` runs those that need a framework.
    (path) => /\.\w+$/.test(path) && !path.startsWith('first-sleep/') && !path.startsWith('adapters/'),
  )
  /** As a user runs them: with plain Node on the package as it is built, and with the Python of the system. */
  const INTERPRETERS: Record<string, string> = { mjs: process.execPath, py: '/usr/bin/python3' }
  let server: ServerProcess
  beforeAll(async () => {
    server = await ServerProcess.start()
  })
  afterAll(() => server?.cleanUp())

  test.each(Object.keys(INTERPRETERS))('there are some in %s', (ending) => {
    expect(files.filter((path) => path.endsWith(`.${ending}`))).not.toEqual([])
  })

  test.each(files)('%s verifies itself, and leaves nothing', { timeout: 120_000 }, async (path) => {
    const interpreter = INTERPRETERS[path.split('.').at(-1) ?? '']
    if (interpreter === undefined) throw new Error(`Nothing here runs ${path}`)
    const env = {
      PATH: process.env['PATH'],
      PYTHONPATH: `${root}python`,
      PYTHONDONTWRITEBYTECODE: '1',
      DORMOUSE_URL: server.url,
      DORMOUSE_API_KEY: server.key,
    }
    const { stdout, stderr } = await execute(interpreter, [`${root}examples/${path}`], { env })
    expect(stdout).not.toBe('')
    expect(stderr).toBe('')
    for (const kind of ['sandboxes', 'snapshots', 'volumes'])
      expect((await server.ok(`/v1/${kind}`)).items, kind).toEqual([])
  })
})
