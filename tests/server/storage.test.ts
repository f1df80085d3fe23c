import { execFile } from 'node:child_process'
import { readdir } from 'node:fs/promises'
import { promisify } from 'node:util'
import type { Sandbox } from '@dormouse/server'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { runIn, type TestCore, type TestHost, testHost, wanted } from './test-core.ts'

const exec = promisify(execFile)
const MIB = 1024 ** 2

let host: TestHost
let core: TestCore
beforeAll(async () => {
  host = await testHost()
  core = await host.open()
})
afterAll(async () => {
  await core?.[Symbol.asyncDispose]()
  await host?.cleanUp()
})

const run = (sandbox: Sandbox, code: string) => runIn(core, sandbox, code)

/** What the file system says about all snapshots and layers: it counts a file with several names once. */
async function bytesOnDisk(): Promise<number> {
  const { snapshotsDir, layersDir } = host.factory.layout
  const { stdout } = await exec('du', ['--block-size=1', '--summarize', snapshotsDir, layersDir])
  const sums = stdout.trim().split('\n')
  return sums.map((line) => Number.parseInt(line, 10)).reduce((sum, bytes) => sum + bytes, 0)
}

const sum = (bytes: Iterable<number>) => [...bytes].reduce((total, one) => total + one, 0)

describe('what is stored', () => {
  test('shared memory and files are counted once, and every byte has an owner', async () => {
    const { sandbox: parent } = await core.sandboxes.create(wanted(), core.caller)
    await run(
      parent,
      `import os; x = os.urandom(${64 * MIB}); open("f", "wb").write(os.urandom(${32 * MIB}))`,
    )
    await parent.standby({ tier: 'stored', cause: 'asked' })
    const { engine } = core.sandboxes.deps
    const alone = await engine.storage()
    expect(alone.totalBytes).toBeGreaterThan(96 * MIB)

    const children = await parent.fork({ count: 3, reseed: true })
    for (const { id } of children) {
      const child = core.sandboxes.get(id, core.caller)
      await run(child, 'y = 1')
      await child.standby({ tier: 'stored', cause: 'asked' })
    }
    const report = await engine.storage()
    expect(report.snapshots.size).toBe(4)
    expect(sum(report.snapshots.values())).toBeCloseTo(report.totalBytes, -1)
    // Four times as many, and far from four times as much.
    expect(report.totalBytes).toBeLessThan(1.8 * alone.totalBytes)
    // The parent pays for a part only of what it now shares.
    const head = parent.view().headSnapshotId ?? ''
    expect(report.snapshots.get(head as never)).toBeLessThan(0.5 * alone.totalBytes)
    // Directories and manifests are not counted; everything else is, to the byte.
    const onDisk = await bytesOnDisk()
    expect(report.totalBytes).toBeLessThanOrEqual(onDisk)
    expect(report.totalBytes).toBeGreaterThan(onDisk - 8 * MIB)

    // What is left belongs to those who are left.
    for (const { id } of children) await core.sandboxes.get(id, core.caller).delete()
    await expect.poll(() => readdir(host.factory.layout.snapshotsDir), { timeout: 20_000 }).toEqual([head])
    expect((await engine.storage()).snapshots.get(head as never)).toBeCloseTo(alone.totalBytes, -1)
    await parent.delete()
    expect((await engine.storage()).totalBytes).toBe(0)
  })

  test('its share is what usage counts as stored', async () => {
    const { sandbox } = await core.sandboxes.create(wanted(), core.caller)
    await run(sandbox, `import os; x = os.urandom(${64 * MIB})`)
    const report = async () =>
      (await core.services.usage.report({ sandboxId: sandbox.id }, core.caller)).total.storedGbHours
    expect(await report()).toBe(0)
    await sandbox.standby({ tier: 'stored', cause: 'asked' })
    // The disk is looked at once a minute; a server that starts looks at once.
    core = await core.restart()
    const sleeping = core.sandboxes.get(sandbox.id, core.caller)
    const { createdAt } = core.sandboxes.getSnapshot(sleeping.view().headSnapshotId ?? '', core.caller)
    const bytes = (await core.sandboxes.deps.engine.storage()).totalBytes
    const gbHours = await report()
    const hours = (Date.now() - Date.parse(createdAt)) / 3_600_000
    expect(gbHours).toBeGreaterThan(0)
    expect(gbHours).toBeLessThanOrEqual((hours * bytes) / 1024 ** 3)
    await sleeping.delete()
  })
})
