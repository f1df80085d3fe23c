import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { cp, mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { testDataDir } from '../test-data-dir.ts'
import { TestCluster } from './test-cluster.ts'

const END_MS = 60_000
const repository = fileURLToPath(new URL('../..', import.meta.url))
/** As `dormouse up` does, which sets its exit status and ends when nothing is left to do. */
const UP = `
import { loadConfig, runServer } from '@dormouse/server'
const [dataDir, toolsDir] = process.argv.slice(1)
const { signal } = new AbortController()
try {
  await runServer({ config: loadConfig({ env: {}, dataDir, flags: { '--port': '0' } }), toolsDir, signal })
} catch (error) {
  console.error(error.message)
  process.exitCode = 1
}
`

let cluster: TestCluster
let copy: string
beforeAll(async () => {
  cluster = await TestCluster.start({ hosts: 1 })
  copy = await mkdtemp(join(tmpdir(), 'dormouse-copy-'))
})
afterAll(async () => {
  await cluster?.cleanUp()
  await rm(copy, { recursive: true, force: true })
})

test('a server on a copy of a data directory ends, and says why', { timeout: END_MS }, async () => {
  const original = cluster.hosts[0]?.factory.stateDir ?? ''
  const files = (await readdir(original)).filter((name) => /^(cluster\.db.*|config\.json)$/.test(name))
  for (const name of files) await cp(join(original, name), join(copy, name))
  const args = ['--input-type=module', '--eval', UP, copy, testDataDir]
  const up = spawn(process.execPath, args, { cwd: repository, stdio: ['ignore', 'ignore', 'pipe'] })
  let said = ''
  up.stderr.on('data', (data: Buffer) => {
    said += data.toString()
  })
  const [status] = await once(up, 'exit', { signal: AbortSignal.timeout(END_MS / 2) }).finally(() =>
    up.kill('SIGKILL'),
  )
  expect(said).toContain('Another server uses the identity of this host')
  expect(status).toBe(1)
})
