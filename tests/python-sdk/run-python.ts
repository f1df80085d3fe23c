import { spawn } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect } from 'vitest'
import type { ServerProcess } from '../server/server-process.ts'

export const PYTHON = '/usr/bin/python3'
export const sdkDir = fileURLToPath(new URL('../../python', import.meta.url))
export const testsDir = fileURLToPath(new URL('python', import.meta.url))

/** The test modules that are written in Python. */
export const moduleNames = readdirSync(testsDir)
  .filter((name) => /^test_\w+\.py$/.test(name))
  .map((name) => name.slice(0, -'.py'.length))

interface Ended {
  readonly code: number | null
  readonly output: string
}

export function runPython(program: string, args: string[], env: NodeJS.ProcessEnv = {}): Promise<Ended> {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, {
      cwd: testsDir,
      env: { ...process.env, PYTHONPATH: sdkDir, PYTHONDONTWRITEBYTECODE: '1', ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    let output = ''
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (data) => (output += data))
    child.once('error', reject)
    child.once('close', (code) => resolve({ code, output }))
  })
}

/** Tests that pass leave nothing on the server. After a failure the server is cleared for the next test. */
export async function expectToPass(
  server: ServerProcess,
  program: string,
  args: string[],
  more: NodeJS.ProcessEnv = {},
): Promise<void> {
  const env = { DORMOUSE_URL: server.url, DORMOUSE_API_KEY: server.key, ...more }
  const { code, output } = await runPython(program, args, env)
  if (code !== 0) await server.clear()
  expect(code, output).toBe(0)
  await expect
    .poll(async () => (await server.ok('/v1/sandboxes')).items, { timeout: 20_000, message: output })
    .toEqual([])
}
