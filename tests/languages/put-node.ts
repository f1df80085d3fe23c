import { createReadStream } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { Guest } from '@dormouse/engine'
import { testDataDir } from '../test-data-dir.ts'

/** The Node.js that the set-up of the tests fetched. */
export async function testNodePath(): Promise<string> {
  const versions = join(testDataDir, 'tools/test-node')
  const [version = 'none'] = (await readdir(versions)).sort().reverse()
  return join(versions, version, 'node')
}

/** Copies that Node.js into a sandbox of the template "python". */
export async function putNode({ files }: Guest): Promise<void> {
  await files.write('/usr/local/bin/node', createReadStream(await testNodePath()), { mode: 0o755 })
}
