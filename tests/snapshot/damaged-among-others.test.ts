import { readdir, readFile, rename, writeFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { newSandboxId, type SnapshotId } from '@dormouse/contracts'
import type { Engine } from '@dormouse/engine'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { linuxFactory } from '../engine-linux/linux-factory.ts'
import { BrokenDisk } from './break-files.ts'

// Not slowed down.
const readdirNow = readdir
const factory = await linuxFactory()
const { layersDir, snapshotsDir } = factory.layout
let engine: Engine
let hurt: SnapshotId
let well: SnapshotId

async function save(content: string): Promise<SnapshotId> {
  const burrow = await engine.createBurrow({ sandboxId: newSandboxId(), template: 'python' })
  await burrow.guest.runs.run({ code: `open("/root/f", "w").write("${content}")` })
  return (await engine.snapshot(burrow, { leave: 'gone' })).snapshot.id
}

async function read(id: SnapshotId): Promise<string> {
  const burrow = await engine.restore(id, { sandboxId: newSandboxId() })
  try {
    return (await burrow.guest.runs.run({ code: 'print(open("/root/f").read())' })).stdout.trim()
  } finally {
    await burrow.destroy()
  }
}

const manifestOf = (id: SnapshotId) => factory.layout.snapshot(id).manifest

beforeAll(async () => {
  engine = await factory.open()
  hurt = await save('hurt')
  well = await save('well')
})
afterAll(async () => {
  await engine?.[Symbol.asyncDispose]()
  await factory.cleanUp()
})

/** All others continue as before; when it is repaired, all of it is there. */
async function expectOthersWell(): Promise<void> {
  await engine[Symbol.asyncDispose]()
  engine = await factory.open()
  expect(await engine.adoptBurrows()).toMatchObject({ lost: [] })
  expect((await engine.listSnapshots()).map(({ id }) => id)).toEqual([well])
  expect((await engine.storage()).snapshots.has(well)).toBe(true)
  await expect(read(hurt)).rejects.toMatchObject({
    code: expect.stringMatching(/snapshot_unusable|not_found/),
  })
  expect(await read(well)).toBe('well')
  // Each deletion collects.
  const other = await save('other')
  await engine.deleteSnapshot(other)
  await expect(engine.getSnapshot(other)).rejects.toMatchObject({ code: 'not_found' })
}

describe('a snapshot whose manifest cannot be read hinders no other sandbox, and loses nothing', () => {
  test.each<[string, (before: string) => Promise<() => Promise<unknown>>]>([
    [
      'it was cut off',
      async (before) => {
        await writeFile(manifestOf(hurt), before.slice(0, before.length / 2))
        return () => writeFile(manifestOf(hurt), before)
      },
    ],
    [
      'it is of another format',
      async (before) => {
        await writeFile(
          manifestOf(hurt),
          JSON.stringify({ ...JSON.parse(before), formatVersion: 1, kind: 'x' }),
        )
        return () => writeFile(manifestOf(hurt), before)
      },
    ],
    [
      'it is gone',
      async () => {
        await rename(manifestOf(hurt), `${manifestOf(hurt)}.away`)
        return () => rename(`${manifestOf(hurt)}.away`, manifestOf(hurt))
      },
    ],
    [
      'the disk fails to read it',
      async () => {
        const broken = new BrokenDisk({ read: (path) => path === manifestOf(hurt) })
        return async () => broken[Symbol.dispose]()
      },
    ],
  ])('because %s', async (_why, damage) => {
    const mend = await damage(await readFile(manifestOf(hurt), 'utf8'))
    try {
      await expectOthersWell()
    } finally {
      await mend()
    }
    expect(await read(hurt)).toBe('hurt')
  })

  test('collects what others leave, where its own layers can be told', async () => {
    const before = await readFile(manifestOf(hurt), 'utf8')
    await writeFile(manifestOf(hurt), JSON.stringify({ ...JSON.parse(before), formatVersion: 999 }))
    const layers = [hurt, well].map(
      async (id) => JSON.parse(await readFile(manifestOf(id), 'utf8')).layers[0],
    )
    await engine.deleteSnapshot(await save('other'))
    await expect
      .poll(async () => (await readdir(layersDir)).sort(), { timeout: 15_000 })
      .toEqual((await Promise.all(layers)).sort())
    await writeFile(manifestOf(hurt), before)
    expect(await read(hurt)).toBe('hurt')
  })

  test('can be deleted', async () => {
    await writeFile(manifestOf(hurt), 'not a manifest')
    await engine.deleteSnapshot(hurt)
    await expect(engine.deleteSnapshot(hurt)).rejects.toMatchObject({ code: 'not_found' })
    expect(await readdir(snapshotsDir)).toEqual([well])
    expect(await read(well)).toBe('well')
  })
})

describe('a collection', () => {
  test('takes nothing away from a snapshot that is begun meanwhile', async () => {
    const burrow = await engine.createBurrow({ sandboxId: newSandboxId(), template: 'python' })
    await burrow.guest.runs.run({ code: 'open("/root/f", "w").write("kept")' })
    const doomed = await save('doomed')
    // Collections rest a second.
    await sleep(1_100)
    const isBegun = async () => (await readdirNow(snapshotsDir)).some((name) => name.startsWith('.taking-'))
    const until = async (holds: () => Promise<boolean>) => {
      while (!(await holds())) await sleep(1)
    }
    let isCollecting = false
    using _slow = new BrokenDisk({
      delay: (path) => {
        if (path !== layersDir || isCollecting) return undefined
        isCollecting = true
        return until(isBegun)
      },
    })
    const deleting = engine.deleteSnapshot(doomed)
    await until(async () => isCollecting)
    const { snapshot } = await engine.snapshot(burrow, { leave: 'gone' })
    await deleting
    expect(await read(snapshot.id)).toBe('kept')
  })
})
