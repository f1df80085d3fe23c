import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { newLayerId, newSandboxId, type SnapshotId } from '@dormouse/contracts'
import { LinuxEngine } from '@dormouse/engine-linux'
import { afterAll, expect, test } from 'vitest'
import { LONGEST_CHAIN_LAYERS } from '../../packages/engine-linux/src/storage/choose-layers-to-merge.ts'
import { linuxFactory } from '../engine-linux/linux-factory.ts'
import { testDataDir } from '../test-data-dir.ts'

const factory = await linuxFactory()
afterAll(() => factory.cleanUp())

/** The chain is made this much shorter than it may be, so that a few naps are enough to reach the end. */
const MARGIN_LAYERS = 4
const NAPS = MARGIN_LAYERS + 8

test('a sandbox that always wakes before its upkeep can be saved for ever', {
  timeout: 180_000,
}, async () => {
  const engine = await LinuxEngine.open({ dataDir: testDataDir, stateDir: factory.stateDir })
  try {
    let burrow = await engine.createBurrow({ sandboxId: newSandboxId(), template: 'python' })
    let last: SnapshotId | undefined
    let longest = 0
    const lengthen = async (id: SnapshotId) => {
      // As after as many naps. CRIU cannot read the mount table of a burrow with about ninety layers.
      const more = Array.from({ length: LONGEST_CHAIN_LAYERS - MARGIN_LAYERS }, () => newLayerId())
      for (const layer of more) {
        await mkdir(join(factory.layout.layersDir, layer, 'root'), { recursive: true, mode: 0o755 })
        await writeFile(join(factory.layout.layersDir, layer, 'root', `of-${layer}`), layer)
      }
      const path = factory.layout.snapshot(id).manifest
      const manifest = JSON.parse(await readFile(path, 'utf8')) as { layers: string[] }
      const [top, ...rest] = manifest.layers
      await writeFile(path, JSON.stringify({ ...manifest, layers: [top, ...more, ...rest] }))
    }
    for (let nap = 0; nap < NAPS; nap += 1) {
      const { error } = await burrow.guest.runs.run({ code: `open('/root/f', 'w').write('${nap}')` })
      expect(error).toBeUndefined()
      const { snapshot } = await engine.snapshot(burrow, { leave: 'gone' })
      if (last !== undefined) await engine.deleteSnapshot(last)
      last = snapshot.id
      if (nap === 0) await lengthen(snapshot.id)
      const manifest = JSON.parse(await readFile(factory.layout.snapshot(snapshot.id).manifest, 'utf8'))
      longest = Math.max(longest, manifest.layers.length)
      burrow = await engine.restore(snapshot.id, { sandboxId: burrow.sandboxId })
    }
    expect(longest).toBeGreaterThan(LONGEST_CHAIN_LAYERS - MARGIN_LAYERS)
    expect(longest).toBeLessThanOrEqual(LONGEST_CHAIN_LAYERS)
    const run = await burrow.guest.runs.run({ code: "print(open('/root/f').read())" })
    expect(run.stdout).toBe(`${NAPS - 1}\n`)
    await burrow.destroy()
  } finally {
    await engine[Symbol.asyncDispose]()
  }
})
