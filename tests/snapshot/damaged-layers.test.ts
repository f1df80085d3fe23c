import { execFile } from 'node:child_process'
import { appendFile, chmod, readdir, rename, rm, stat, symlink, utimes, writeFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { promisify } from 'node:util'
import { newSandboxId, type SnapshotId } from '@dormouse/contracts'
import { LinuxEngine } from '@dormouse/engine-linux'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { linuxFactory } from '../engine-linux/linux-factory.ts'
import { testDataDir } from '../test-data-dir.ts'

const run = promisify(execFile)
const factory = await linuxFactory()
const { layersDir, sumsDir } = factory.layout
let engine: LinuxEngine
let id: SnapshotId
let layer: string

beforeAll(async () => {
  engine = await LinuxEngine.open({ dataDir: testDataDir, stateDir: factory.stateDir })
  const burrow = await engine.createBurrow({ sandboxId: newSandboxId(), template: 'python' })
  const code = `
import os
os.makedirs("/root/d/e"); os.chdir("/root/d")
open("f", "w").write("content"); os.link("f", "g"); os.symlink("f", "s"); os.mkfifo("p")
for name in (b"new\\nline", b"not \\xff utf8", "snow\\u2603".encode()): open(name, "w").close()
os.unlink("/etc/issue")`
  expect((await burrow.guest.runs.run({ code })).error).toBeUndefined()
  id = (await engine.snapshot(burrow, { leave: 'gone' })).snapshot.id
  layer = join(layersDir, (await readdir(layersDir))[0] ?? '')
})
afterAll(async () => {
  await engine?.[Symbol.asyncDispose]()
  await factory.cleanUp()
})

const inside = (name: string) => join(layer, 'root/d', name)

/** As from a backup. */
async function expectNoticed(reason: RegExp, damage: () => Promise<unknown>): Promise<void> {
  await run('cp', ['-a', layer, `${layer}.whole`])
  try {
    await damage()
    await expect(engine.verifySnapshot(id)).rejects.toMatchObject({
      code: 'snapshot_unusable',
      message: expect.stringMatching(reason),
    })
  } finally {
    await rm(layer, { recursive: true })
    await rename(`${layer}.whole`, layer)
  }
  await engine.verifySnapshot(id)
}

describe('a file layer', () => {
  test('gets its checksums in the background, once', async () => {
    expect(await readdir(sumsDir)).toEqual([])
    await engine.upkeep()
    const sums = join(sumsDir, basename(layer))
    const { ino, mtimeMs, size } = await stat(sums)
    // With the root of the layer, and what the agent writes beside: 16 bytes each.
    expect(size).toBeGreaterThan(11 * 16)
    await engine.verifySnapshot(id)
    await engine.upkeep()
    expect(await stat(sums)).toMatchObject({ ino, mtimeMs })
  })

  test('that lost a file is noticed', () => expectNoticed(/not as it was/, () => rm(inside('f'))))
  test('that got a file is noticed', () =>
    expectNoticed(/not as it was|added/, () => writeFile(inside('x'), '')))
  test('whose file was written to is noticed', () =>
    expectNoticed(/not as it was/, () => writeFile(inside('f'), 'CONTENT')))
  test('whose file has another size and the same time is noticed', () =>
    expectNoticed(/not as it was/, async () => {
      await appendFile(inside('f'), 'more')
      await run('touch', ['--reference', join(`${layer}.whole`, 'root/d/f'), inside('f')])
    }))
  test('whose file has one other bit and the same time is noticed', () =>
    expectNoticed(/root\/d\/f is not as it was/, async () => {
      await writeFile(inside('f'), 'bontent')
      await run('touch', ['--reference', join(`${layer}.whole`, 'root/d/f'), inside('f')])
    }))
  test('whose file has another extended attribute is noticed', () =>
    expectNoticed(/not as it was/, () =>
      run('python3', ['-c', `import os; os.setxattr("${inside('e')}", "trusted.overlay.opaque", b"y")`]),
    ))
  test('that lost a file, in a directory with the same time, is noticed', () =>
    expectNoticed(/1 of its files or directories are missing/, async () => {
      await rm(inside('f'))
      await run('touch', ['--reference', join(`${layer}.whole`, 'root/d'), inside('.')])
    }))
  test('whose file has another name is noticed', () =>
    expectNoticed(/root\/d\/h was added/, async () => {
      await rename(inside('f'), inside('h'))
      await run('touch', ['--reference', join(`${layer}.whole`, 'root/d'), inside('.')])
    }))
  test('whose file has other rights is noticed', () =>
    expectNoticed(/not as it was/, () => chmod(inside('f'), 0o777)))
  test('whose file has another time is noticed', () =>
    expectNoticed(/not as it was/, () => utimes(inside('f'), 1, 1)))
  test('whose link points elsewhere is noticed', () =>
    expectNoticed(/not as it was/, async () => {
      await rm(inside('s'))
      await symlink('g', inside('s'))
    }))
  test('whose deletion of a file of the template is gone is noticed', () =>
    expectNoticed(/not as it was/, () => rm(join(layer, 'etc/issue'))))

  test('and what is known of it go together', async () => {
    await engine.deleteSnapshot(id)
    await expect.poll(() => readdir(layersDir), { timeout: 20_000 }).toEqual([])
    await expect.poll(() => readdir(sumsDir), { timeout: 20_000 }).not.toContain(basename(layer))
  })
})
