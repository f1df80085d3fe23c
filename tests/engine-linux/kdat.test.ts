import { rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { prepareKdat } from '../../packages/engine-linux/src/burrow/prepare-kdat.ts'
import { SparePool } from '../../packages/engine-linux/src/burrow/spare.ts'
import { findHierarchies } from '../../packages/engine-linux/src/cgroup/find-hierarchies.ts'
import { findCriu } from '../../packages/engine-linux/src/criu/find-criu.ts'
import { kdatDirectory } from '../../packages/engine-linux/src/criu/kdat.ts'
import { prepareGuestTools } from '../../packages/engine-linux/src/guest-tools.ts'
import { FailureLog } from '../../packages/engine-linux/src/host/failure-log.ts'
import { testDataDir } from '../test-data-dir.ts'
import { linuxFactory } from './linux-factory.ts'

test('on a machine that has just started, CRIU looks at the kernel, as the host and inside a burrow', async () => {
  const factory = await linuxFactory()
  // Makes the directories.
  await (await factory.open())[Symbol.asyncDispose]?.()
  const { layout } = factory
  const found = await findCriu(testDataDir)
  if (found === undefined) throw new Error('there is no CRIU')
  // Another name, so that those who run beside this find what they need.
  const criu = { ...found, version: `${found.version}-test-${process.pid}` }
  const hierarchies = await findHierarchies()
  const toolsDir = await prepareGuestTools(testDataDir)
  const failures = new FailureLog()
  const spares = new SparePool({ layout, hierarchies, failures, criu })
  try {
    await prepareKdat({ layout, hierarchies, spares, failures }, { criu, dataDir: testDataDir, toolsDir })
    for (const as of ['host', 'burrow'])
      expect((await stat(join(kdatDirectory(criu), as, 'criu.kdat'))).size).toBeGreaterThan(0)
  } finally {
    await spares[Symbol.asyncDispose]()
    await rm(kdatDirectory(criu), { recursive: true, force: true })
    await factory.cleanUp()
  }
})
