import { readFile } from 'node:fs/promises'
import { newSandboxId, type SnapshotId } from '@dormouse/contracts'
import { LinuxEngine } from '@dormouse/engine-linux'
import { afterAll, expect, test } from 'vitest'
import { LONGEST_CHAIN_LAYERS } from '../../packages/engine-linux/src/storage/choose-layers-to-merge.ts'
import { linuxFactory } from '../engine-linux/linux-factory.ts'
import { testDataDir } from '../test-data-dir.ts'

const factory = await linuxFactory()
afterAll(() => factory.cleanUp())

/** A few more than a chain may have: CRIU cannot read the mount table of a burrow with about ninety layers. */
const NAPS = LONGEST_CHAIN_LAYERS + 8

test('one that always wakes before upkeep comes to it can be saved for ever', {
  timeout: 180_000,
}, async () => {
  const engine = await LinuxEngine.open({ dataDir: testDataDir, stateDir: factory.stateDir })
  try {
    let burrow = await engine.createBurrow({ sandboxId: newSandboxId(), template: 'python' })
    let last: SnapshotId | undefined
    let longest = 0
    for (let nap = 0; nap < NAPS; nap += 1) {
      const { error } = await burrow.guest.runs.run({ code: `open('/root/f', 'w').write('${nap}')` })
      expect(error).toBeUndefined()
      const { snapshot } = await engine.snapshot(burrow, { leave: 'gone' })
      if (last !== undefined) await engine.deleteSnapshot(last)
      last = snapshot.id
      const manifest = JSON.parse(await readFile(factory.layout.snapshot(snapshot.id).manifest, 'utf8'))
      longest = Math.max(longest, manifest.layers.length)
      burrow = await engine.restore(snapshot.id, { sandboxId: burrow.sandboxId })
    }
    expect(longest).toBeLessThanOrEqual(LONGEST_CHAIN_LAYERS)
    const run = await burrow.guest.runs.run({ code: "print(open('/root/f').read())" })
    expect(run.stdout).toBe(`${NAPS - 1}\n`)
    await burrow.destroy()
  } finally {
    await engine[Symbol.asyncDispose]()
  }
})
