import { newSandboxId, type SnapshotId } from '@dormouse/contracts'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Burrow, Engine } from '../engine.ts'
import { runPython } from './collect.ts'
import { type EngineFactory, NOTHING_UNSAVABLE } from './engine-factory.ts'

/**
 * Every kind of change that a layer can hold: new, changed, removed, replaced by a directory, renamed, owned, linked,
 * sparse and special files.
 */
const CHANGE = `
import os, shutil, stat
open("/root/new", "w").write("new")
open("/etc/hostname", "a").write("changed")
os.remove("/etc/issue")
shutil.rmtree("/usr/share/python3"); os.mkdir("/usr/share/python3"); open("/usr/share/python3/mine", "w").close()
os.rename("/etc/apt", "/etc/apt-moved")
os.chown("/root/new", 1234, 4321); os.chmod("/root/new", 0o4711)
os.link("/root/new", "/root/linked"); os.symlink("/nowhere", "/root/symbolic"); os.mkfifo("/root/fifo")
with open("/root/sparse", "w") as f: f.truncate(1 << 40)
os.setxattr("/root/new", "user.note", b"kept")`

const LOOK = `
import os, stat
s = os.stat("/root/new")
print(open("/root/new").read(), open("/etc/hostname").read().endswith("changed"), os.path.exists("/etc/issue"),
  os.listdir("/usr/share/python3"), os.path.exists("/etc/apt"), "sources.list.d" in os.listdir("/etc/apt-moved"),
  s.st_uid, s.st_gid, oct(s.st_mode), os.stat("/root/linked").st_ino == s.st_ino, os.readlink("/root/symbolic"),
  stat.S_ISFIFO(os.stat("/root/fifo").st_mode), os.stat("/root/sparse").st_size == 1 << 40, os.stat("/root/sparse").st_blocks,
  os.getxattr("/root/new", "user.note"))`

const SEEN = `new True False ['mine'] False True 1234 4321 0o104711 True /nowhere True True 0 b'kept'\n`

export function describeFilesSnapshots(factory: EngineFactory): void {
  const { unsavable } = factory
  describe('snapshots of files only', () => {
    let engine: Engine
    const create = (): Promise<Burrow> =>
      engine.createBurrow({ sandboxId: newSandboxId(), template: 'python' })
    beforeAll(async () => {
      engine = await factory.open()
    })
    afterAll(async () => {
      await engine[Symbol.asyncDispose]()
      await factory.dispose()
    })

    async function expectBoots(id: SnapshotId): Promise<Burrow> {
      const burrow = await engine.restore(id, { sandboxId: newSandboxId(), env: { NOTE: 'given' } })
      expect(await runPython(burrow.guest, LOOK)).toBe(SEEN)
      expect(await runPython(burrow.guest, 'print("x" in globals(), os.environ["NOTE"])')).toBe(
        'False given\n',
      )
      return burrow
    }

    test('a running burrow continues unchanged; a restored one boots with its files', async () => {
      const burrow = await create()
      await runPython(burrow.guest, `x = object(); address = id(x)\n${CHANGE}`)
      const { snapshot, burrow: same } = await engine.snapshot(burrow, { kind: 'files', leave: 'running' })
      expect(snapshot).toMatchObject({ kind: 'files', sandboxId: burrow.sandboxId, template: 'python' })
      expect(same).toBe(burrow)
      await runPython(burrow.guest, 'open("/root/new", "w").write("later"); os.remove("/root/linked")')
      expect(await runPython(burrow.guest, 'print(id(x) == address)')).toBe('True\n')
      expect(await engine.getSnapshot(snapshot.id)).toEqual(snapshot)
      await engine.verifySnapshot(snapshot.id)

      const booted = await expectBoots(snapshot.id)
      // Then a full snapshot, then one of files only.
      await runPython(booted.guest, 'y = 7')
      const full = await engine.snapshot(booted, { leave: 'running' })
      expect(full.snapshot).toMatchObject({ kind: 'full', parent: snapshot.id })
      expect(await runPython(full.burrow!.guest, `print(y)\n${LOOK}`)).toBe(`7\n${SEEN}`)
      const again = await engine.snapshot(full.burrow!, { kind: 'files', leave: 'gone' })
      expect(await full.burrow!.ended).toEqual({ reason: 'stored', snapshotId: again.snapshot.id })
      await (await expectBoots(again.snapshot.id)).destroy()

      // The burrow that continued is unchanged, and rolls back to its files.
      const back = await engine.rollback(burrow, snapshot.id)
      expect(await runPython(back.guest, LOOK)).toBe(SEEN)
      await back.destroy()
    })

    test('a frozen burrow stays frozen, and a running one is frozen on request', async () => {
      const burrow = await create()
      await burrow.freeze()
      await engine.snapshot(burrow, { kind: 'files', leave: 'running' })
      const asleep = burrow.guest.runs.run({ code: 'print(1)' })
      const first = await Promise.race([asleep, new Promise((resolve) => setTimeout(resolve, 300, 'frozen'))])
      expect(first).toBe('frozen')
      await burrow.thaw()
      expect((await asleep).stdout).toBe('1\n')
      await engine.snapshot(burrow, { kind: 'files', leave: 'frozen' })
      await burrow.thaw()
      expect(await runPython(burrow.guest, 'print(2)')).toBe('2\n')
      await burrow.destroy()
    })

    test('a burrow whose processes cannot be saved can be saved without them', async ({ skip }) => {
      if (unsavable === undefined) return skip(NOTHING_UNSAVABLE)
      const burrow = await create()
      await runPython(burrow.guest, `${unsavable.code}\n${CHANGE}`)
      await expect(engine.snapshot(burrow, { leave: 'gone' })).rejects.toMatchObject({
        code: 'snapshot_refused',
      })
      const { snapshot } = await engine.snapshot(burrow, { kind: 'files', leave: 'gone' })
      expect(await factory.traces()).toEqual([])
      await (await expectBoots(snapshot.id)).destroy()
    })

    test('a burrow that has ended can be saved until it is destroyed', async () => {
      const burrow = await create()
      await runPython(burrow.guest, CHANGE)
      await factory.killAgent(burrow.id)
      expect(await burrow.ended).toMatchObject({ reason: 'agent_ended' })
      await expect(engine.snapshot(burrow, { kind: 'files', leave: 'running' })).rejects.toMatchObject({
        code: 'burrow_ended',
      })
      const { snapshot } = await engine.snapshot(burrow, { kind: 'files', leave: 'gone' })
      expect(await factory.traces()).toEqual([])
      await expect(engine.snapshot(burrow, { kind: 'files', leave: 'gone' })).rejects.toMatchObject({
        code: 'burrow_ended',
      })
      await (await expectBoots(snapshot.id)).destroy()
    })

    test('a second snapshot at the same time is refused', async () => {
      const burrow = await create()
      const both = await Promise.allSettled([
        engine.snapshot(burrow, { kind: 'files', leave: 'running' }),
        engine.snapshot(burrow, { kind: 'files', leave: 'running' }),
      ])
      expect(both[0]?.status).toBe('fulfilled')
      expect(both[1]).toMatchObject({ status: 'rejected', reason: { code: 'conflict' } })
      await burrow.destroy()
    })
  })
}
