import { readFile } from 'node:fs/promises'
import { newSandboxId } from '@dormouse/contracts'
import type { Burrow } from '@dormouse/engine'
import type { MicrovmEngine } from '@dormouse/engine-microvm'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { BOOT_TIMEOUT_MS, type MicrovmFactory, microvmFactory, microvmMissing } from './microvm-factory.ts'

const missing = await microvmMissing()

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
  const neighbourAnswers = async () => expect(await sh(neighbour, 'echo here')).toBe('here')

  test('QEMU runs as a uid of its own, without capabilities, in its own namespaces, with seccomp', async () => {
    const { first, uid } = JSON.parse(await readFile(factory.layout.burrow(neighbour.id).record, 'utf8'))
    const status = await readFile(`/proc/${first.pid}/status`, 'utf8')
    const field = (name: string) => new RegExp(`^${name}:\\s+(.*)$`, 'm').exec(status)?.[1]
    expect(field('Uid')).toBe(Array(4).fill(uid).join('\t'))
    for (const name of ['CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb']) expect(field(name)).toMatch(/^0+$/)
    expect([field('NoNewPrivs'), field('Seccomp')]).toEqual(['1', '2'])
    for (const name of ['mnt', 'net', 'pid', 'ipc', 'uts']) {
      const [own, ours] = await Promise.all(
        [first.pid, 'self'].map((pid) =>
          import('node:fs/promises').then(({ readlink }) => readlink(`/proc/${pid}/ns/${name}`)),
        ),
      )
      expect(own).not.toBe(ours)
    }
  })

  test('a panic of its kernel ends only its own machine', async () => {
    const burrow = await create()
    await burrow.guest.processes.start({ shell: 'sleep 0.2; echo c > /proc/sysrq-trigger' })
    expect(await burrow.ended).toEqual({ reason: 'killed' })
    await expect(burrow.guest.info()).rejects.toMatchObject({ code: 'burrow_ended' })
    await burrow.destroy()
    await neighbourAnswers()
  })

  test('it fills its disk and gets ENOSPC; the disk of the host has what it wrote and no more', async () => {
    const burrow = await create()
    const code =
      'fallocate -l 40G /root/big 2>&1 | grep -o "No space left on device"; df --output=size -BG / | tail -1'
    expect(await sh(burrow, code)).toMatch(/^No space left on device\n\s*10G$/)
    await burrow.destroy()
  })

  test('a flood of its console takes no room on the host, and the burrow can still be destroyed', async () => {
    const burrow = await create()
    expect(await sh(burrow, 'head -c 1M /dev/urandom > /dev/ttyS0; echo done')).toBe('done')
    await neighbourAnswers()
    await burrow.destroy()
    expect((await factory.traces()).some((trace) => trace.includes(burrow.id))).toBe(false)
  })
})
