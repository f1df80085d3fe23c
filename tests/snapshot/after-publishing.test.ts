import { execFile } from 'node:child_process'
import { mkdir, readdir } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { newSandboxId, type SnapshotId } from '@dormouse/contracts'
import type { Burrow, Engine, SavedBurrow } from '@dormouse/engine'
import { afterAll, afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { BurrowCgroup } from '../../packages/engine-linux/src/cgroup/burrow-cgroup.ts'
import { linuxFactory } from '../engine-linux/linux-factory.ts'
import { BrokenDisk } from './break-files.ts'

const run = promisify(execFile)
const factory = await linuxFactory()
const { snapshotsDir, layersDir } = factory.layout
let engine: Engine
let burrow: Burrow

const TICK = `
import os, threading, time
ticks = 0; x = 7; open("/root/f", "w").write("kept")
def tick():
    global ticks
    while True: ticks += 1; time.sleep(0.005)
threading.Thread(target=tick, daemon=True).start()`

beforeEach(async () => {
  engine = await factory.open()
  burrow = await engine.createBurrow({ sandboxId: newSandboxId(), template: 'python' })
  await print(burrow, TICK)
})
afterEach(async () => {
  vi.restoreAllMocks()
  await engine[Symbol.asyncDispose]()
})
afterAll(() => factory.cleanUp())

async function print(from: Burrow, code: string): Promise<string> {
  const { error, stdout } = await from.guest.runs.run({ code })
  expect(error?.traceback).toBeUndefined()
  return stdout.trim()
}

/** What cannot be removed, as when something of the host holds it. */
async function pin({ id }: Burrow): Promise<() => Promise<unknown>> {
  const place = join(factory.layout.burrow(id).dir, 'pin')
  await mkdir(place)
  await run('mount', ['-t', 'tmpfs', id, place])
  return async () => {
    const { stdout } = await run('findmnt', ['--noheadings', '--output', 'TARGET', '--source', id])
    await run('umount', [stdout.trim()])
  }
}

async function findLeft({ id }: Burrow): Promise<string[]> {
  return (await readdir(factory.layout.burrowsDir)).filter((name) => name.includes(id))
}

async function within<Value>(ms: number, promise: Promise<Value>): Promise<Value> {
  return Promise.race([promise, sleep(ms).then(() => Promise.reject(new Error('It hangs.')))])
}

/** The call returns the snapshot and what failed after it, and the snapshot can be restored. */
async function expectSaved(call: Promise<SavedBurrow>): Promise<SnapshotId> {
  const saved = await call
  expect(saved.burrow).toBeUndefined()
  expect(saved.resumeError).toBeInstanceOf(Error)
  const { id: snapshotId } = saved.snapshot
  const woken = await engine.restore(snapshotId, { sandboxId: newSandboxId() })
  expect(await print(woken, 'print(x, open("/root/f").read())')).toBe('7 kept')
  await woken.destroy()
  return snapshotId
}

async function expectGoingOn(): Promise<void> {
  const [before, after] = (
    await print(burrow, 'before = ticks; time.sleep(0.2); print(before, ticks)')
  ).split(' ')
  expect(Number(after)).toBeGreaterThan(Number(before))
  expect(await print(burrow, 'print(x, open("/root/f").read())')).toBe('7 kept')
}

describe('what goes wrong after a snapshot is on disk does not look like a refusal', () => {
  test('a burrow that cannot be removed: the caller learns the snapshot, and destroying it does not hang', async () => {
    const release = await pin(burrow)
    const snapshotId = await expectSaved(engine.snapshot(burrow, { leave: 'gone' }))
    expect(await within(5_000, burrow.ended)).toEqual({ reason: 'stored', snapshotId })
    await expect(within(20_000, burrow.destroy())).rejects.toMatchObject({ code: 'setup_failed' })
    await release()
    await within(20_000, burrow.destroy())
    expect(await findLeft(burrow)).toEqual([])
  })

  test.each(['running', 'frozen'] as const)(
    'a burrow that cannot be removed does not keep the sandbox from going on %s; what is left goes later',
    async (leave) => {
      const release = await pin(burrow)
      const { burrow: next } = await engine.snapshot(burrow, { leave })
      await next!.thaw()
      expect(await print(next!, 'print(x, open("/root/f").read())')).toBe('7 kept')
      await release()
      await expect.poll(() => findLeft(burrow), { timeout: 20_000 }).toEqual([])
      await next!.destroy()
    },
  )

  test('a burrow that cannot be removed does not cost a fork its children', async () => {
    const release = await pin(burrow)
    const { parent, children } = await engine.fork(burrow, { sandboxIds: [newSandboxId()] })
    for (const one of [parent!, ...children]) {
      expect(await print(one, 'print(x)')).toBe('7')
      await one.destroy()
    }
    await release()
  })

  test('a burrow that cannot be removed does not keep the next engine from opening', async () => {
    const release = await pin(burrow)
    const snapshotId = await expectSaved(engine.snapshot(burrow, { leave: 'gone' }))
    await engine[Symbol.asyncDispose]()
    engine = await factory.open()
    expect((await engine.adoptBurrows()).burrows).toEqual([])
    await release()
    expect((await engine.adoptBurrows()).burrows).toEqual([])
    expect(await findLeft(burrow)).toEqual([])
    expect((await engine.listSnapshots()).map(({ id }) => id)).toContain(snapshotId)
  })

  test('one that continues but cannot be frozen is asleep on disk', async () => {
    const { freeze } = BurrowCgroup.prototype
    // It is frozen for the dump as well.
    vi.spyOn(BurrowCgroup.prototype, 'freeze').mockImplementation(function (this: BurrowCgroup) {
      const isSaved = this.freezerDirectory?.endsWith(burrow.id) === true
      return isSaved ? freeze.call(this) : Promise.reject(new Error('not in time'))
    })
    await expectSaved(engine.snapshot(burrow, { leave: 'frozen' }))
    vi.restoreAllMocks()
    expect(await factory.traces()).toEqual([])
  })

  test('one whose snapshot cannot be synced keeps running, and the snapshot is gone', async () => {
    const before = await readdir(snapshotsDir)
    {
      using _broken = new BrokenDisk({ sync: (path) => path === snapshotsDir })
      await expect(engine.snapshot(burrow, { leave: 'gone' })).rejects.toMatchObject({ code: 'EIO' })
    }
    expect(await readdir(snapshotsDir)).toEqual(before)
    await expectGoingOn()
    await engine.snapshot(burrow, { leave: 'gone' })
  })

  test('one whose new name may not last, and cannot be taken back either, is saved', async () => {
    const broken = new BrokenDisk({
      sync: (path) => path === snapshotsDir,
      rename: (from) => dirname(from) === snapshotsDir && !basename(from).startsWith('.'),
    })
    const outcome = engine.snapshot(burrow, { leave: 'running' }).finally(() => broken[Symbol.dispose]())
    const snapshotId = await expectSaved(outcome)
    expect(await within(5_000, burrow.ended)).toEqual({ reason: 'stored', snapshotId })
    await within(20_000, burrow.destroy())
  })
})

describe('a burrow that is removed halfway', () => {
  test('is none for the next start, which saves nothing of what is left of its files', async () => {
    const release = await pin(burrow)
    await expect(burrow.destroy()).rejects.toMatchObject({ code: 'setup_failed' })
    await engine[Symbol.asyncDispose]()
    const snapshots = async () => (await readdir(snapshotsDir)).filter((name) => name.startsWith('sn-'))
    const before = await snapshots()
    engine = await factory.open()
    expect(await engine.adoptBurrows()).toEqual({ burrows: [], lost: [], undone: [] })
    await release()
    expect(await engine.adoptBurrows()).toEqual({ burrows: [], lost: [], undone: [] })
    expect(await snapshots()).toEqual(before)
    expect(await findLeft(burrow)).toEqual([])
  })
})

describe('a refusal that cannot be undone', () => {
  test('leaves no process stopped and no file lost, and the next snapshot is as good as any', async () => {
    {
      using _broken = new BrokenDisk({ rename: (_from, to) => dirname(to) === layersDir })
      await expect(engine.snapshot(burrow, { leave: 'gone' })).rejects.toMatchObject({ code: 'EIO' })
      await expectGoingOn()
    }
    {
      // Now its files have become a layer, and cannot be brought back.
      using _broken = new BrokenDisk({
        rename: (from) => dirname(from) === layersDir,
        sync: (path) => path === snapshotsDir,
      })
      await expect(engine.snapshot(burrow, { leave: 'gone' })).rejects.toMatchObject({ code: 'EIO' })
      await expectGoingOn()
      await print(burrow, 'open("/root/g", "w").write("later")')
    }
    {
      // A collection finds the layer, to which only the burrow refers.
      const other = await engine.createBurrow({ sandboxId: newSandboxId(), template: 'python' })
      await engine.deleteSnapshot((await engine.snapshot(other, { leave: 'gone' })).snapshot.id)
      await expectGoingOn()
    }
    const { burrow: next } = await engine.snapshot(burrow, { leave: 'running' })
    burrow = next!
    await expectGoingOn()
    expect(await print(burrow, 'print(open("/root/g").read())')).toBe('later')
    await within(20_000, burrow.destroy())
  })

  test('destroying it does not hang', async () => {
    using _broken = new BrokenDisk({
      rename: (from) => dirname(from) === layersDir,
      sync: (path) => path === snapshotsDir,
    })
    await expect(engine.snapshot(burrow, { leave: 'gone' })).rejects.toMatchObject({ code: 'EIO' })
    await within(20_000, burrow.destroy())
  })
})
