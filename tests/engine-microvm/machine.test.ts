import { readdirSync, readFileSync } from 'node:fs'
import { type BurrowId, newSandboxId, type SnapshotId } from '@dormouse/contracts'
import type { Burrow } from '@dormouse/engine'
import { MicrovmEngine } from '@dormouse/engine-microvm'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { testDataDir } from '../test-data-dir.ts'
import { BOOT_TIMEOUT_MS, type MicrovmFactory, microvmFactory, microvmMissing } from './microvm-factory.ts'

const missing = await microvmMissing()
const IS_WHOLE = process.env['DORMOUSE_TEST_LARGE'] === '1'
const MIB = 1024 ** 2

/** What a restore must renew in a machine, and what a snapshot must not keep. */
// Skip: QEMU and the kernel of guests are installed only when asked for.
describe.skipIf(missing !== undefined)(`a restored machine${missing ? `: ${missing}` : ''}`, () => {
  let factory: MicrovmFactory
  let engine: MicrovmEngine

  beforeAll(async () => {
    factory = await microvmFactory()
    engine = await factory.open()
    await engine.prepareTemplate('python', 1024 ** 3)
  }, BOOT_TIMEOUT_MS)
  afterAll(async () => {
    await engine?.[Symbol.asyncDispose]()
    await factory?.cleanUp()
  })
  const create = () => engine.createBurrow({ sandboxId: newSandboxId(), template: 'python' })
  const python = async (burrow: Burrow, code: string) => (await burrow.guest.runs.run({ code })).stdout.trim()

  test('forks have random numbers of their own, the right time and their own names', async () => {
    const burrow = await create()
    await python(burrow, 'import os, random, uuid, time, socket; first = os.urandom(16)')
    const sandboxIds = [newSandboxId(), newSandboxId()]
    const { parent, children, snapshot } = await engine.fork(burrow, { sandboxIds })
    const all = [parent!, ...children]
    // Of the kernel, by its call and by its device; of Python's own generator, and of the one that asks the kernel.
    const code = `device = open("/dev/urandom", "rb", 0).read(16).hex()
print(os.urandom(16).hex(), device, random.SystemRandom().getrandbits(128), random.random(), uuid.uuid4(), end=" ")
print(socket.gethostname(), time.time())`
    const seen = await Promise.all(
      all.map(async (each) => {
        const before = Date.now()
        const words = (await python(each, code)).split(' ')
        const [name, time] = words.slice(-2)
        const isRightTime = Number(time) * 1_000 > before - 1_000 && Number(time) * 1_000 < Date.now() + 1_000
        return { random: words.slice(0, -2), name, isRightTime }
      }),
    )
    expect(new Set(seen.flatMap(({ random }) => random)).size).toBe(3 * 5)
    expect(seen.map(({ name }) => name)).toEqual([burrow.sandboxId, ...sandboxIds])
    expect(seen.map(({ isRightTime }) => isRightTime)).toEqual([true, true, true])
    for (const each of all) await each.destroy()
    await engine.deleteSnapshot(snapshot.id)
  })

  test('a QEMU waits ahead of need: the next sandbox gets it, and one that has died is replaced', async () => {
    const spares = () => readdirSync(factory.layout.sparesDir) as BurrowId[]
    const oneWaits = () => expect.poll(() => engine.spareCount, { timeout: 60_000 }).toBe(1)
    const first = await create()
    await oneWaits()
    const [waiting] = spares()
    const second = await create()
    expect(second.id).toBe(waiting)
    await oneWaits()
    const [doomed] = spares()
    expect(doomed).not.toBe(waiting)
    await factory.killSpare(doomed!)
    const { snapshot, burrow: third } = await engine.snapshot(second, { leave: 'running' })
    expect(third!.id).not.toBe(doomed)
    expect(await python(third!, 'print(6 * 7)')).toBe('42')
    for (const burrow of [first, third!]) await burrow.destroy()
    await engine.deleteSnapshot(snapshot.id)
    // The server that follows one that was killed removes its spares.
    await oneWaits()
    const next = await factory.open()
    expect(await next.adoptBurrows()).toMatchObject({ burrows: [], lost: [] })
    expect(spares()).toEqual([])
    expect(readdirSync(factory.layout.burrowsDir)).toEqual([])
    await next[Symbol.asyncDispose]()
    const last = await create()
    expect(await python(last, 'print(6 * 7)')).toBe('42')
    await last.destroy()
  })

  // Skip: it boots a machine of another size, which takes long under emulation.
  test.skipIf(!IS_WHOLE)(
    'a machine has the CPUs of its limit, also after a sleep and in a fork',
    async () => {
      const limits = { cpus: 1.5 }
      const burrow = await engine.createBurrow({ sandboxId: newSandboxId(), template: 'python', limits })
      const count = 'print(os.cpu_count(), sorted(os.sched_getaffinity(0)))'
      expect(await python(burrow, `import os\n${count}`)).toBe('2 [0, 1]')
      const { snapshot } = await engine.snapshot(burrow, { leave: 'gone' })
      for (const sandboxId of [burrow.sandboxId, newSandboxId()]) {
        const woken = await engine.restore(snapshot.id, { sandboxId })
        expect(await python(woken, count)).toBe('2 [0, 1]')
        const both =
          'timeout 1 sh -c "while :; do :; done" & timeout 1 sh -c "while :; do :; done" & wait; echo ended'
        expect((await woken.guest.runs.run({ code: both, language: 'bash' })).stdout).toBe('ended\n')
        await woken.destroy()
      }
      await engine.deleteSnapshot(snapshot.id)
    },
    BOOT_TIMEOUT_MS,
  )

  test('a machine that dies while it is saved: the snapshot fails, and the burrow reports its end', async () => {
    const burrow = await create()
    const before = await engine.listSnapshots()
    const refused = expect(engine.snapshot(burrow, { leave: 'gone' })).rejects.toThrow()
    await factory.killBurrow(burrow.id)
    await refused
    expect(await burrow.ended).toEqual({ reason: 'killed' })
    expect(await engine.listSnapshots()).toEqual(before)
    await burrow.destroy()
  })

  test('chains of disks stay short, and older snapshots keep their files', async () => {
    const short = await MicrovmEngine.open({
      ...{ dataDir: testDataDir, stateDir: factory.stateDir, preload: [], chainMaxDisks: 4 },
    })
    let burrow = await short.createBurrow({ sandboxId: newSandboxId(), template: 'python' })
    const ids: SnapshotId[] = []
    for (let round = 0; round < 4; round++) {
      await python(burrow, `open("/root/${round}", "w").write("${round}" * 100_000); import os; os.sync()`)
      const saved = await short.snapshot(burrow, { leave: 'running' })
      burrow = saved.burrow!
      ids.push(saved.snapshot.id)
    }
    const disks = (id: SnapshotId) =>
      JSON.parse(readFileSync(factory.layout.snapshot(id).manifest, 'utf8')).base.disks.length
    // Root disk and booted template, and one more each time, until there are four.
    expect(ids.map(disks)).toEqual([3, 4, 2, 3])
    // Without the page cache, so that everything comes from the disks.
    const list = `import os
open("/proc/sys/vm/drop_caches", "w").write("3")
print([n for n in "0123" if os.path.exists(f"/root/{n}") and open(f"/root/{n}").read() == n * 100_000])`
    expect(await python(burrow, list)).toBe("['0', '1', '2', '3']")
    await burrow.destroy()
    const older = await short.restore(ids[1]!, { sandboxId: burrow.sandboxId })
    expect(await python(older, list)).toBe("['0', '1']")
    await older.destroy()
    await short[Symbol.asyncDispose]()
  })

  test('memory that its programs have freed is neither kept nor saved', async () => {
    const burrow = await create()
    const privateBytes = async () => (await burrow.memory())!.privateBytes
    const before = await privateBytes()
    const allocate = 'x = bytearray(300 << 20)\nfor i in range(0, len(x), 4096): x[i] = i >> 12 & 255 or 1'
    await python(burrow, allocate)
    expect(await privateBytes()).toBeGreaterThan(before + 290 * MIB)
    await python(burrow, 'del x')
    await expect.poll(privateBytes, { timeout: 60_000, interval: 500 }).toBeLessThan(before + 200 * MIB)
    const { snapshot } = await engine.snapshot(burrow, { leave: 'gone' })
    expect(snapshot.bytes.memory).toBeLessThan(150 * MIB)
    await engine.deleteSnapshot(snapshot.id)
  })
})
