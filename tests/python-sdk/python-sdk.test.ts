import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readdirSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { ServerProcess } from '../server/server-process.ts'

const sdk = fileURLToPath(new URL('../../python', import.meta.url))
const tests = fileURLToPath(new URL('python', import.meta.url))
const names = readdirSync(tests)
  .filter((name) => /^test_\w+\.py$/.test(name))
  .map((name) => name.slice(0, -'.py'.length))

const PYTHON = '/usr/bin/python3'

/** The oldest that the SDK promises, where this machine has it. */
function findOldest(): string | undefined {
  const versions = join(homedir(), '.pyenv/versions')
  const found = existsSync(versions)
    ? readdirSync(versions).find((name) => name.startsWith('3.9.'))
    : undefined
  return found === undefined ? undefined : join(versions, found, 'bin/python')
}

interface Ended {
  readonly code: number | null
  readonly output: string
}

function run(program: string, args: string[], env: NodeJS.ProcessEnv): Promise<Ended> {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, {
      cwd: tests,
      // A warning about something that was left open is a failure, too.
      env: { ...process.env, PYTHONPATH: sdk, PYTHONDONTWRITEBYTECODE: '1', ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    let output = ''
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (data) => (output += data))
    child.once('error', reject)
    child.once('close', (code) => resolve({ code, output }))
  })
}

describe('the Python SDK', () => {
  let server: ServerProcess
  beforeAll(async () => {
    server = await ServerProcess.start()
  })
  afterAll(async () => {
    await server?.cleanUp()
  })
  const environment = () => ({ DORMOUSE_URL: server.url, DORMOUSE_API_KEY: server.key })

  test('there are tests', () => {
    expect(names.length).toBeGreaterThan(5)
  })

  test('the synchronous half is what the asynchronous one makes it', async () => {
    const { code, output } = await run(PYTHON, [join(sdk, 'tools/make_sync.py'), '--check'], {})
    expect(output).toBe('')
    expect(code).toBe(0)
  })

  test.each(names)('%s', { timeout: 180_000 }, async (name) => {
    const { code, output } = await run(PYTHON, ['-W', 'error', '-m', 'unittest', '-q', name], environment())
    expect(code, output).toBe(0)
  })

  const oldest = findOldest()
  // Skip: only some machines have the oldest Python.
  test.skipIf(oldest === undefined)('Python 3.9', { timeout: 300_000 }, async () => {
    const { code, output } = await run(oldest!, ['-m', 'unittest', '-q', ...names], environment())
    expect(code, output).toBe(0)
  })

  test('a run and a command are followed across kill -9 of the server, to its new port', async () => {
    const child = spawn(PYTHON, ['across_restart.py'], {
      cwd: tests,
      env: { PATH: process.env['PATH'], PYTHONPATH: sdk, DORMOUSE_DATA: server.factory.stateDir },
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
  })

  test('nothing that was not to stay has stayed', async () => {
    const { items } = await server.ok('/v1/sandboxes')
    expect(items).toEqual([])
  })
})
