import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { ServerProcess } from '../server/server-process.ts'
import { expectToPass, moduleNames, PYTHON, runPython, sdkDir, testsDir } from './run-python.ts'

describe('the Python SDK', () => {
  let server: ServerProcess
  beforeAll(async () => {
    server = await ServerProcess.start({ webhooks: { allowPrivate: true } })
  })
  afterAll(() => server?.cleanUp())

  test('there are tests', () => {
    expect(moduleNames.length).toBeGreaterThan(5)
  })

  test('the synchronous half is up to date with the asynchronous one', async () => {
    const { code, output } = await runPython(PYTHON, [join(sdkDir, 'tools/make_sync.py'), '--check'])
    expect(output).toBe('')
    expect(code).toBe(0)
  })

  // Warnings are errors: about unclosed sockets, for example.
  test.each(moduleNames)('%s passes and leaves no sandbox', { timeout: 180_000 }, (name) =>
    expectToPass(server, PYTHON, ['-W', 'error', '-m', 'unittest', '-q', name]),
  )

  test('a run and a command are followed across kill -9 of the server, to its new port', async () => {
    const child = spawn(PYTHON, ['across_restart.py'], {
      cwd: testsDir,
      env: { PATH: process.env['PATH'], PYTHONPATH: sdkDir, DORMOUSE_DATA: server.factory.stateDir },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    let output = ''
    let problems = ''
    child.stderr.on('data', (data) => (problems += data))
    const asked = new Promise<void>((resolve) => {
      child.stdout.on('data', (data) => {
        output += data
        if (output.includes('kill')) resolve()
      })
    })
    const ended = once(child, 'close')
    await Promise.race([asked, ended])
    const before = server.url
    await server.kill()
    await server.begin()
    expect(server.url).not.toBe(before)
    const [code] = await ended
    expect(code, problems).toBe(0)
    expect(JSON.parse(output.replace('kill', '')).events).toBeGreaterThan(60)
    expect((await server.ok('/v1/sandboxes')).items).toEqual([])
  })
})
