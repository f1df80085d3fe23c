import { createReadStream } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { Guest } from '@dormouse/engine'
import { testDataDir } from '../test-data-dir.ts'

/** The path of the Node.js that the set-up of the tests fetched. */
export async function testNode(): Promise<string> {
  const versions = join(testDataDir, 'tools/test-node')
  const [version = 'none'] = (await readdir(versions)).sort().reverse()
  return join(versions, version, 'node')
}

/** Copies it into a sandbox of the template "python". */
export async function putNode({ files }: Guest): Promise<void> {
  await files.write('/usr/local/bin/node', createReadStream(await testNode()), { mode: 0o755 })
}
