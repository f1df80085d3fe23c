import { createReadStream } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { Guest } from '@dormouse/engine'
import { testDataDir } from '../test-data-dir.ts'

/** Copies the Node.js that the set-up of the tests fetched into a sandbox of the template "python". */
export async function putNode({ files }: Guest): Promise<void> {
  const versions = join(testDataDir, 'tools/test-node')
  const [version = 'none'] = (await readdir(versions)).sort().reverse()
  await files.write('/usr/local/bin/node', createReadStream(join(versions, version, 'node')), { mode: 0o755 })
}
