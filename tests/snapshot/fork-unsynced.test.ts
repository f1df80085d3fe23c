import { existsSync } from 'node:fs'
import { readdir, readFile, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { newSandboxId, type SnapshotId } from '@dormouse/contracts'
import type { Burrow } from '@dormouse/engine'
import { LinuxEngine } from '@dormouse/engine-linux'
import { afterAll, expect, test } from 'vitest'
import { linuxFactory } from '../engine-linux/linux-factory.ts'
import { testDataDir } from '../test-data-dir.ts'

const factory = await linuxFactory()
afterAll(() => factory.cleanUp())

const open = () => LinuxEngine.open({ dataDir: testDataDir, stateDir: factory.stateDir })
const { snapshotsDir } = factory.layout
const marks = async () => (await readdir(snapshotsDir)).filter((name) => name.startsWith('.unsynced-'))
const thisBoot = (await readFile('/proc/sys/kernel/random/boot_id', 'utf8')).trim()
const OTHER_BOOT = '00000000-0000-4000-8000-000000000000'
const mark = (id: SnapshotId, bootId: string) =>
  writeFile(join(snapshotsDir, `.unsynced-${id}-${bootId}`), '')
const print = async (burrow: Burrow, code: string) => (await burrow.guest.runs.run({ code })).stdout.trim()

async function forkOnce(engine: LinuxEngine) {
  const burrow = await engine.createBurrow({ sandboxId: newSandboxId(), template: 'python' })
  await burrow.guest.runs.run({ code: 'x = 41; open("/root/f", "w").write("parent")' })
  const { snapshot, parent, children } = await engine.fork(burrow, { sandboxIds: [newSandboxId()] })
  const [child] = children
  if (parent === undefined || child === undefined) throw new Error('The fork is incomplete.')
  return { snapshot, parent, child }
}

test('the snapshot of a fork is on disk soon, and a sleep of a child waits for that', async () => {
  await using engine = await open()
  const { snapshot, parent, child } = await forkOnce(engine)
  expect(await print(child, 'x += 1; print(x, open("/root/f").read())')).toBe('42 parent')
  // As if the disk had not finished: the sleep has to write what it relies on.
  await mark(snapshot.id, thisBoot)
  const saved = await engine.snapshot(child, { leave: 'gone' })
  expect(await marks()).toEqual([])
  await engine.syncSnapshot(snapshot.id)
  const woken = await engine.restore(saved.snapshot.id, { sandboxId: child.sandboxId })
  expect(await print(woken, 'print(x, open("/root/f").read())')).toBe('42 parent')
  for (const burrow of [woken, parent]) await burrow.destroy()
})

test('the next engine finishes what `kill -9` left, and adopts the burrows of the fork', async () => {
  const engine = await open()
  const { snapshot, parent, child } = await forkOnce(engine)
  await engine.syncSnapshot(snapshot.id)
  await engine[Symbol.asyncDispose]()
  await mark(snapshot.id, thisBoot)
  await using next = await open()
  const { burrows, undone } = await next.adoptBurrows()
  expect(undone).toEqual([])
  expect(await marks()).toEqual([])
  expect(burrows.map(({ id }) => id).sort()).toEqual([parent.id, child.id].sort())
  expect((await next.getSnapshot(snapshot.id)).id).toBe(snapshot.id)
  for (const burrow of burrows) await burrow.destroy()
})

test.for(['complete', 'with an empty manifest'] as const)(
  'after a power cut the snapshot of a fork that was not on disk is gone: %s',
  async (state) => {
    const engine = await open()
    const { snapshot, parent, child } = await forkOnce(engine)
    await engine.syncSnapshot(snapshot.id)
    await engine[Symbol.asyncDispose]()
    for (const { id } of [parent, child]) await factory.killBurrow(id)
    await mark(snapshot.id, OTHER_BOOT)
    const paths = factory.layout.snapshot(snapshot.id)
    if (state === 'with an empty manifest') await writeFile(paths.manifest, '')
    await using next = await open()
    const adopted = await next.adoptBurrows()
    expect(adopted.undone).toEqual([snapshot.id])
    expect(adopted.burrows).toEqual([])
    // Their files lie on those of the fork, which are not to be trusted.
    expect(adopted.lost.map(({ filesSnapshotId }) => filesSnapshotId)).toEqual([undefined, undefined])
    expect(await marks()).toEqual([])
    expect(existsSync(paths.dir)).toBe(false)
    await expect(next.getSnapshot(snapshot.id)).rejects.toMatchObject({ code: 'not_found' })
    expect(await next.listSnapshots()).not.toContainEqual(expect.objectContaining({ id: snapshot.id }))
  },
)

test('a snapshot that is not on disk is written before it is deleted: burrows still use its layer', async () => {
  await using engine = await open()
  const { snapshot, parent, child } = await forkOnce(engine)
  await engine.syncSnapshot(snapshot.id)
  await mark(snapshot.id, thisBoot)
  // The sync fails, so the snapshot stays.
  const { manifest } = factory.layout.snapshot(snapshot.id)
  await rename(manifest, `${manifest}.away`)
  await expect(engine.deleteSnapshot(snapshot.id)).rejects.toThrow()
  await rename(`${manifest}.away`, manifest)
  expect(await marks()).toHaveLength(1)
  await engine.deleteSnapshot(snapshot.id)
  expect(await marks()).toEqual([])
  for (const burrow of [parent, child]) await burrow.destroy()
})
