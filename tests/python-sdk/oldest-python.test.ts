import { existsSync, readdirSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, test } from 'vitest'
import { ServerProcess } from '../server/server-process.ts'
import { expectToPass, moduleNames } from './run-python.ts'

/** The oldest that the SDK promises, where this machine has it. */
function findOldest(): string | undefined {
  const versions = join(homedir(), '.pyenv/versions')
  const found = existsSync(versions)
    ? readdirSync(versions).find((name) => name.startsWith('3.9.'))
    : undefined
  return found === undefined ? undefined : join(versions, found, 'bin/python')
}

const oldest = findOldest()

// Skip: only some machines have the oldest Python.
describe.skipIf(oldest === undefined)('the Python SDK with Python 3.9', () => {
  let server: ServerProcess
  beforeAll(async () => {
    server = await ServerProcess.start()
  })
  afterAll(() => server?.cleanUp())

  test.each(moduleNames)('%s', { timeout: 180_000 }, (name) =>
    expectToPass(server, oldest!, ['-m', 'unittest', '-q', name]),
  )
})
