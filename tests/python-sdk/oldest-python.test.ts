import { existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { homedir, tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { ServerProcess } from '../server/server-process.ts'
import { expectToPass, moduleNames, PYTHON, runPython, sdkDir } from './run-python.ts'

/** The oldest Python that the SDK supports, if this machine has it. */
function findOldest(): string | undefined {
  const versions = join(homedir(), '.pyenv/versions')
  const found = existsSync(versions)
    ? readdirSync(versions).find((name) => name.startsWith('3.9.'))
    : undefined
  return found === undefined ? undefined : join(versions, found, 'bin/python')
}

const oldest = findOldest()

/**
 * They use every module of the SDK. The others repeat the same calls with more load, so only `DORMOUSE_TEST_LARGE=1` runs
 * them with this Python as well.
 */
const ALL_CALLS = [
  ...['test_arguments', 'test_async', 'test_bounded_text', 'test_build_context', 'test_commands'],
  ...['test_files', 'test_jobs'],
  ...['test_offline', 'test_ports', 'test_runs', 'test_sandboxes', 'test_signatures', 'test_tools'],
]
const isLarge = process.env['DORMOUSE_TEST_LARGE'] === '1'
const modules = moduleNames.filter((name) => isLarge || ALL_CALLS.includes(name))

// Skip: only some machines have the oldest Python.
describe.skipIf(oldest === undefined)('the Python SDK with Python 3.9', () => {
  let server: ServerProcess
  // httpx and websockets of Debian, without the other packages of its Python.
  const dependencies = mkdtempSync(join(tmpdir(), 'dormouse-python-'))
  beforeAll(async () => {
    const { code, output } = await runPython(PYTHON, ['dependencies.py', dependencies])
    expect(code, output).toBe(0)
    server = await ServerProcess.start({ webhooks: { allowPrivate: true } })
  })
  afterAll(async () => {
    await server?.cleanUp()
    rmSync(dependencies, { recursive: true, force: true })
  })

  test.each(modules)('%s', { timeout: 180_000 }, (name) =>
    expectToPass(server, oldest!, ['-m', 'unittest', '-q', name], {
      PYTHONPATH: `${sdkDir}:${dependencies}`,
      // The dependencies have no bytecode for this Python: it compiles them once, not for each module.
      PYTHONDONTWRITEBYTECODE: '',
      PYTHONPYCACHEPREFIX: join(dependencies, '.bytecode'),
    }),
  )
})
