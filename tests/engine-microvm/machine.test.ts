import { newSandboxId } from '@dormouse/contracts'
import type { Burrow } from '@dormouse/engine'
import type { MicrovmEngine } from '@dormouse/engine-microvm'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { BOOT_TIMEOUT_MS, type MicrovmFactory, microvmFactory, microvmMissing } from './microvm-factory.ts'

const missing = await microvmMissing()
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
    const code =
      'print(os.urandom(16).hex(), random.random(), uuid.uuid4(), socket.gethostname(), time.time())'
    const seen = await Promise.all(
      all.map(async (each) => {
        const before = Date.now()
        const [urandom, number, uuid, name, time] = (await python(each, code)).split(' ')
        const isRightTime = Number(time) * 1_000 > before - 1_000 && Number(time) * 1_000 < Date.now() + 1_000
        return { random: [urandom, number, uuid], name, isRightTime }
      }),
    )
    expect(new Set(seen.flatMap(({ random }) => random)).size).toBe(9)
    expect(seen.map(({ name }) => name)).toEqual([burrow.sandboxId, ...sandboxIds])
    expect(seen.map(({ isRightTime }) => isRightTime)).toEqual([true, true, true])
    for (const each of all) await each.destroy()
    await engine.deleteSnapshot(snapshot.id)
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
