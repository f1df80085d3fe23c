import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { constants } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { newSandboxId } from '@dormouse/contracts'
import type { Burrow } from '@dormouse/engine'
import { findGuestKernel, type MicrovmEngine } from '@dormouse/engine-microvm'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { MicrovmBurrow } from '../../packages/engine-microvm/src/burrow/microvm-burrow.ts'
import { encodeFrame, FrameType } from '../../packages/guest/src/frames.ts'
import { lastReport, roundsOf, SEED, timeoutOf } from './attack-reports.ts'
import { BOOT_TIMEOUT_MS, type MicrovmFactory, microvmFactory, microvmMissing } from './microvm-factory.ts'

const missing = await microvmMissing()
const attack = (name: string) => readFile(new URL(name, import.meta.url))
const ROUNDS = roundsOf(20_000)
const MIB = 1024 ** 2
/** What fill-disk.py leaves free for itself. */
const FILLED_MIB = 200
/** Tables of the file system and of the disk image, and the agent's own files. */
const OVERHEAD_BYTES = 48 * MIB

/** The beginning of a frame of the agent's protocol that says this of itself. */
function frameHeader({ type, length }: { type: number; length: number }): Buffer {
  const header = encodeFrame(type, 1)
  header.writeUInt32BE(length)
  return header
}

/** The guest's root does what it likes with its machine; the host and a neighbour keep answering. */
// Skip: QEMU and the kernel of guests are installed only when asked for.
describe.skipIf(missing !== undefined)(`a hostile guest${missing ? `: ${missing}` : ''}`, () => {
  let factory: MicrovmFactory
  let engine: MicrovmEngine
  let neighbour: Burrow

  beforeAll(async () => {
    factory = await microvmFactory()
    engine = await factory.open()
    neighbour = await create()
  }, BOOT_TIMEOUT_MS)
  afterAll(async () => {
    await engine?.[Symbol.asyncDispose]()
    await factory?.cleanUp()
  })
  const create = () => engine.createBurrow({ sandboxId: newSandboxId(), template: 'python' })
  const sh = async (burrow: Burrow, code: string) =>
    (await burrow.guest.runs.run({ code, language: 'bash' })).stdout.trim()
  const readText = async (burrow: Burrow, path: string) => {
    let text = ''
    for await (const chunk of burrow.guest.files.read(path)) text += Buffer.from(chunk).toString()
    return text
  }
  const neighbourAnswers = async () => expect(await sh(neighbour, 'echo here')).toBe('here')

  test('a panic of its kernel ends only its own machine', async () => {
    const burrow = await create()
    await burrow.guest.processes.start({ shell: 'sleep 0.2; echo c > /proc/sysrq-trigger' })
    expect(await burrow.ended).toEqual({ reason: 'killed' })
    await expect(burrow.guest.info()).rejects.toMatchObject({ code: 'burrow_ended' })
    await burrow.destroy()
    await neighbourAnswers()
  })

  test('it fills its disk and gets ENOSPC; the host keeps what it wrote and no more', async () => {
    const burrow = await create()
    const before = await hostBytes(burrow)
    await burrow.guest.files.write('/root/fill.py', await attack('fill-disk.py'))
    const [wrote = 0, code] = (await sh(burrow, 'python3 /root/fill.py')).split(' ').map(Number)
    expect(code).toBe(constants.errno.ENOSPC)
    expect(wrote).toBeGreaterThan(FILLED_MIB * MIB * 0.9)
    const kept = (await hostBytes(burrow)) - before
    expect(kept).toBeGreaterThan(wrote * 0.9)
    expect(kept).toBeLessThan(wrote + OVERHEAD_BYTES)
    await neighbourAnswers()
    expect(await sh(burrow, 'echo still here')).toBe('still here')
    await burrow.destroy()
  })

  test.each([
    ['its console', 'console', 0],
    ['its network card', 'network', 0],
    ['its random generator', 'random', 0],
    ['its balloon', 'balloon', 0],
    ['its disk', 'disk', 64 * MIB],
  ])('a flood of %s takes no more room on the host than it wrote to files', async (_what, part, wrote) => {
    const burrow = await create()
    await burrow.guest.files.write('/root/flood.py', await attack('flood.py'))
    const before = await hostBytes(burrow)
    const flooding = sh(burrow, `python3 /root/flood.py ${part}`)
    await neighbourAnswers()
    expect(await flooding).toBe('done')
    expect((await hostBytes(burrow)) - before).toBeLessThan(wrote + OVERHEAD_BYTES)
    await neighbourAnswers()
    await burrow.destroy()
    await leavesNoTrace(burrow)
  })

  test('its root loads a module, which is there after a sleep, and makes namespaces', async () => {
    const burrow = await create()
    const { modulesDir } = findGuestKernel(factory.layout.kernelDir)!
    await burrow.guest.files.write('/root/dummy.ko', await readFile(join(modulesDir, 'drivers/net/dummy.ko')))
    await burrow.guest.files.write('/root/load.py', await attack('load-module.py'))
    expect(await sh(burrow, 'python3 /root/load.py; grep -c ^dummy /proc/modules')).toBe('0\n1')
    const { snapshot } = await engine.snapshot(burrow, { leave: 'gone' })
    const woken = await engine.restore(snapshot.id, { sandboxId: burrow.sandboxId })
    const nested = 'grep -c ^dummy /proc/modules; unshare --mount --net --pid --fork echo nested'
    expect(await sh(woken, nested)).toBe('1\nnested')
    await woken.destroy()
    await engine.deleteSnapshot(snapshot.id)
  })

  test('its root deletes all files that can be deleted: programs continue, and it sleeps and wakes', async () => {
    const burrow = await create()
    await burrow.guest.runs.run({ code: 'kept = [1, 2, 3]' })
    await sh(burrow, 'rm -rf --no-preserve-root /')
    const { snapshot } = await engine.snapshot(burrow, { leave: 'gone' })
    const woken = await engine.restore(snapshot.id, { sandboxId: burrow.sandboxId })
    expect((await woken.guest.runs.run({ code: 'print(kept)' })).stdout).toBe('[1, 2, 3]\n')
    expect(await sh(woken, 'echo > /dev/null; echo here; echo /usr/*')).toBe('here\n/usr/*')
    await woken.destroy()
    await engine.deleteSnapshot(snapshot.id)
  })

  test.each([
    ['longer than the limit', { type: FrameType.end, length: 0x7fff_ffff }, /type 5 has 2147483647 bytes/],
    ['that only the host may send', { type: FrameType.request, length: 2 }, /must not send frames of type 2/],
  ])('it forges a frame %s: the host says why it hangs up, and connects again', async (_what, frame, why) => {
    const burrow = await create()
    await burrow.guest.files.write('/root/forge.py', await attack('forge-frames.py'))
    // Ends with the connection, and not before.
    const held = sh(burrow, 'sleep 1000').catch((error: unknown) => error)
    const args = ['python3', '/root/forge.py', frameHeader(frame).toString('hex')]
    await burrow.guest.processes.start({ args }).catch(() => {})
    expect(await held).toMatchObject({
      code: 'agent_unreachable',
      message: 'The agent sent malformed data.',
      cause: { message: expect.stringMatching(why) },
    })
    await neighbourAnswers()
    expect(await readText(burrow, '/root/forged')).toBe('1')
    await burrow.destroy()
  })

  test.each([
    ['its virtio devices', 'virtio', 6, 'virt'],
    // Interrupts, power, clock and the configuration of firmware, which names its maker.
    ['the rest of its machine', 'platform', 4, 'QEMU'],
  ])(
    'it writes at random to the registers of %s: the host and the neighbour answer',
    async (_what, part, devices, letters) => {
      const burrow = (await create()) as MicrovmBurrow
      await burrow.guest.files.write('/root/fuzz.py', await attack('fuzz-devices.py'))
      const command = `setsid python3 /root/fuzz.py ${SEED} ${ROUNDS} ${part} 2> /dev/ttyS0`
      // The answer may be lost already.
      void burrow.guest.processes.start({ shell: command }).catch(() => {})
      // QEMU may end its machine, and the machine may hang: its own loss.
      const last = await lastReport(burrow, neighbourAnswers)
      expect(last).toMatchObject({ devices, letters: [letters] })
      await neighbourAnswers()
      await burrow.destroy()
      await leavesNoTrace(burrow)
    },
    timeoutOf(ROUNDS),
  )

  const leavesNoTrace = async ({ id }: Burrow) =>
    expect((await factory.traces()).some((trace) => trace.includes(id))).toBe(false)

  /** Of the burrow's files and sockets: what `du` says. */
  const hostBytes = async ({ id }: Burrow) => {
    const { dir, runParent } = factory.layout.burrow(id)
    const { stdout } = await promisify(execFile)('du', ['-s', '-B1', dir, runParent])
    return stdout.split('\n').reduce((sum, line) => sum + Number.parseInt(line || '0', 10), 0)
  }
})
