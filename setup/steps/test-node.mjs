import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, rename, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { hashOf } from '../hash-inputs.mjs'

/**
 * The Node.js that tests put into their sandboxes: the one of the template "node", without building that template.
 * @type {import('../run-steps.mjs').Step}
 */
export const testNode = {
  id: 'test-node',
  title: 'Node.js for tests',
  scope: 'data',
  hint: 'Check that npm reaches its registry.',
  inputs: () => hashOf(process.arch),
  async isInPlace({ dataDir }) {
    return existsSync(await testNodePath(dataDir))
  },
  async run({ signal }, { dataDir }) {
    const { fetchNpmPackage, nodePin } = await import('@dormouse/engine-linux/setup')
    const pin = nodePin(process.arch)
    if (pin === undefined) throw new Error(`There is no Node.js for ${process.arch}.`)
    const archive = await fetchNpmPackage({ dataDir, pin, signal })
    const final = dirname(await testNodePath(dataDir))
    await mkdir(dirname(final), { recursive: true })
    const work = await mkdtemp(`${final}-`)
    await promisify(execFile)('tar', [
      '-xzf',
      archive,
      '-C',
      work,
      '--strip-components=2',
      'package/bin/node',
    ])
    await rm(final, { recursive: true, force: true })
    await rename(work, final)
  },
}

/** @param {string} dataDir */
async function testNodePath(dataDir) {
  const { nodePin } = await import('@dormouse/engine-linux/setup')
  return join(dataDir, 'tools/test-node', nodePin(process.arch)?.version ?? 'none', 'node')
}
