import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'

const path = (relative: string) => fileURLToPath(new URL(relative, import.meta.url))
const root = path('../../../../')

// No address of the real internet may be contacted by a test, so these have an internet of their own.
test('the tests in ./namespaced pass in a network of their own', { timeout: 180_000 }, () => {
  const vitest = [
    process.execPath,
    `${root}node_modules/vitest/vitest.mjs`,
    'run',
    '--config',
    path('namespaced.config.ts'),
  ]
  const { status, stdout, stderr } = spawnSync('python3', [path('namespaces.py'), ...vitest], {
    cwd: root,
    encoding: 'utf8',
  })
  expect({ status, output: status === 0 ? '' : stdout + stderr }).toEqual({ status: 0, output: '' })
})
