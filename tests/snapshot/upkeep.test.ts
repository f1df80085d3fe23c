import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { newLayerId, newSandboxId, type SnapshotId } from '@dormouse/contracts'
import type { Burrow } from '@dormouse/engine'
import { LinuxEngine } from '@dormouse/engine-linux'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { linuxFactory } from '../engine-linux/linux-factory.ts'
import { testDataDir } from '../test-data-dir.ts'

/** More for longer runs by hand. */
const SLEEPS = Number(process.env['DORMOUSE_UPKEEP_SLEEPS'] ?? 24)
const MB = 1024 ** 2

const factory = await linuxFactory()
let engine: LinuxEngine
beforeAll(async () => {
  engine = await LinuxEngine.open({ dataDir: testDataDir, stateDir: factory.stateDir })
})
afterAll(async () => {
  await engine?.[Symbol.asyncDispose]()
  await factory.cleanUp()
})

async function run(burrow: Burrow, code: string): Promise<string> {
  const { error, stdout } = await burrow.guest.runs.run({ code, timeoutMs: 50_000 })
  expect(error?.traceback).toBeUndefined()
  return stdout.trim()
}

interface Written {
  readonly layers: readonly string[]
  readonly generation?: number
  readonly images: readonly { readonly name: string; readonly sizeBytes: number }[]
  readonly memory: readonly { readonly name: string }[]
}

async function look(id: SnapshotId) {
  const manifest = JSON.parse(await readFile(factory.layout.snapshot(id).manifest, 'utf8')) as Written
  const pages = manifest.images.filter(({ name }) => name.startsWith('pages-'))
  return { manifest, copiedBytes: pages.reduce((bytes, { sizeBytes }) => bytes + sizeBytes, 0) }
}

const create = () => engine.createBurrow({ sandboxId: newSandboxId(), template: 'python' })

describe('upkeep over many sleeps', () => {
  // Changes a third of its memory in every life, scattered; frees parts of what a sleep has saved; comes and goes with
  // files and directories; keeps some open.
  const START = `
import hashlib, json, os, random, shutil, sqlite3
random.seed(7)
data = bytearray(os.urandom(24 << 20)); address = id(data); lives = 0
seal = hashlib.sha256(data).digest()
os.makedirs("/root/work/deep/er"); os.chdir("/root/work")
database = sqlite3.connect("/root/kept.db"); database.execute("create table lives (n integer)"); database.commit()
log = open("/root/log", "a"); reader = open("/root/reader", "w+"); reader.write("read me"); reader.flush()
reader = open("/root/reader"); inode = os.fstat(reader.fileno()).st_ino
expected = {}; kept = []; freed = None
def live():
    global lives, seal, freed
    for number, block in kept: assert block == bytes([number]) * len(block), "blocks"
    assert hashlib.sha256(data).digest() == seal and id(data) == address, "memory"
    lives += 1
    for at in random.sample(range(0, len(data), 4096), len(data) // 4096 // 3): data[at] ^= 1 + lives % 255
    seal = hashlib.sha256(data).digest()
    freed = bytearray(b"f" * (12 << 20)) if lives % 3 == 1 else None
    if freed: kept.append((lives, bytes([lives]) * (4 << 20)))
    database.execute("insert into lives values (?)", [lives]); database.commit()
    assert database.execute("select count(*), max(n) from lives").fetchone() == (lives, lives), "database"
    log.write(f"{lives}\\n"); log.flush()
    assert open("/root/log").read().split() == [str(n) for n in range(1, lives + 1)], "log"
    assert os.fstat(reader.fileno()).st_ino == os.stat("/root/reader").st_ino == inode, "inode"
    for path, content in expected.items(): assert open(path).read() == content, path
    assert sorted(os.listdir("/root/work/deep")) == sorted({"er", *(os.path.basename(p) for p in expected if "/deep/" in p)}), "names"
    name = f"/root/work/deep/{lives}"
    open(name, "w").write(name); expected[name] = name
    if lives > 5: os.unlink(gone := f"/root/work/deep/{lives - 5}"); del expected[gone]
    if lives % 7 == 0:
        if os.path.exists("/root/work/moved"): shutil.rmtree("/root/work/moved")
        os.makedirs("/root/work/from"); open("/root/work/from/f", "w").write(str(lives))
    if lives % 7 == 1 and lives > 1:
        os.rename("/root/work/from", "/root/work/moved"); expected["/root/work/moved/f"] = str(lives - 1)
    if lives % 7 == 6: expected.pop("/root/work/moved/f", None)
`
  test(
    `${SLEEPS} sleeps: short chain, little to copy, all as it was`,
    async () => {
      let burrow = await create()
      await run(burrow, START)
      const chains: number[] = []
      const copied: number[] = []
      let generations = 0
      for (let life = 1; life <= SLEEPS; life++) {
        await run(burrow, 'live()')
        const former = await engine.listSnapshots()
        const { snapshot } = await engine.snapshot(burrow, { leave: 'gone' })
        for (const { id } of former) await engine.deleteSnapshot(id)
        const before = await look(snapshot.id)
        const kept = await engine.upkeep()
        const { manifest, copiedBytes } = await look(snapshot.id)
        if (kept.length > 0) expect(manifest).not.toEqual(before.manifest)
        generations += manifest.generation ?? 0
        chains.push(manifest.layers.length)
        copied.push(copiedBytes)
        const dir = factory.layout.snapshot(snapshot.id).dir
        expect((await readdir(dir)).sort()).toEqual(
          manifest.generation === undefined
            ? expect.arrayContaining(['images', 'manifest.json', 'memory'])
            : [`generation-${manifest.generation}`, 'manifest.json'],
        )
        burrow = await engine.restore(snapshot.id, { sandboxId: burrow.sandboxId, reseed: false })
      }
      await run(burrow, 'live()')
      expect(Math.max(...chains)).toBeLessThanOrEqual(18)
      expect(Math.max(...copied)).toBeLessThanOrEqual(8 * MB)
      expect(generations).toBeGreaterThan(3)
      // One snapshot refers to its layers, and to nothing that is not needed.
      const [last] = await engine.listSnapshots()
      const { manifest } = await look(last!.id)
      const layers = manifest.layers.filter(
        (name) => !factory.layout.layer(name as never).includes('template-layers'),
      )
      const standing = async () => (await readdir(factory.layout.layersDir)).sort()
      await expect.poll(standing, { timeout: 10_000 }).toEqual([...layers].sort())
      expect(manifest.memory.length).toBeLessThan(20)
      await burrow.destroy()
      await engine.deleteSnapshot(last!.id)
      await expect.poll(standing, { timeout: 10_000 }).toEqual([])
    },
    60_000 + SLEEPS * 10_000,
  )
})

describe('a chain of layers that is longer than a page of mount options', () => {
  test('wakes, tells nothing of the host, and is short after upkeep', async () => {
    // One that closes before it would do its upkeep.
    const first = await LinuxEngine.open({ dataDir: testDataDir, stateDir: factory.stateDir })
    const made = await first.createBurrow({ sandboxId: newSandboxId(), template: 'python' })
    await run(
      made,
      'import os; os.makedirs("/root/a/b"); open("/root/a/b/c", "w").write("kept"); os.unlink("/etc/issue")',
    )
    const { snapshot } = await first.snapshot(made, { leave: 'gone' })
    await first[Symbol.asyncDispose]()
    const path = factory.layout.snapshot(snapshot.id).manifest
    const manifest = JSON.parse(await readFile(path, 'utf8')) as { layers: string[] }
    // Below the one with the files, as after as many sleeps in which little changed.
    const more = Array.from({ length: 300 }, () => newLayerId())
    for (const [index, layer] of more.entries()) {
      await mkdir(join(factory.layout.layersDir, layer, 'root'), { recursive: true, mode: 0o755 })
      await writeFile(join(factory.layout.layersDir, layer, 'root', `n${index}`), String(index))
    }
    const [top, ...rest] = manifest.layers
    await writeFile(path, JSON.stringify({ ...manifest, layers: [top, ...more, ...rest] }))

    const code = `print(open("/root/a/b/c").read(), os.path.exists("/etc/issue"), sum(int(open(f"/root/n{n}").read()) for n in range(300)))`
    const look = async () => {
      const burrow = await engine.restore(snapshot.id, { sandboxId: newSandboxId() })
      expect(await run(burrow, code)).toBe(`kept False ${(299 * 300) / 2}`)
      const mounts = await run(burrow, 'print(open("/proc/self/mounts").read())')
      expect(mounts).not.toContain(factory.stateDir)
      await burrow.destroy()
      return mounts.split('ly-').length
    }
    expect(await look()).toBeGreaterThan(300)
    expect(await engine.upkeep()).toEqual([snapshot.id])
    expect(await look()).toBeLessThan(6)
    await engine.deleteSnapshot(snapshot.id)
  })
})
