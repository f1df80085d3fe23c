import { readFile } from 'node:fs/promises'
import { newSandboxId } from '@dormouse/contracts'
import type { Burrow, BurrowEnd } from '@dormouse/engine'
import type { MicrovmEngine } from '@dormouse/engine-microvm'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { MicrovmBurrow } from '../../packages/engine-microvm/src/burrow/microvm-burrow.ts'
import { heldBytes } from '../held-memory.ts'
import { lastReport, type Report, roundsOf, SEED, timeoutOf } from './attack-reports.ts'
import { BOOT_TIMEOUT_MS, type MicrovmFactory, microvmFactory, microvmMissing } from './microvm-factory.ts'

const missing = await microvmMissing()
const MIB = 1024 ** 2
const ROUNDS = roundsOf(1_000)
/** Numbers that the standard of virtio gives to devices. */
const KIND = { network: 1, disk: 2, console: 3, random: 4, balloon: 5 } as const
/** As in fuzz-queues.py. */
const HONEST_EVERY = 4
/** What the link, its streams and sockets hold; a flood is many times as long. */
const HELD_MAX_BYTES = 24 * MIB
const FLOOD_BYTES = 64 * MIB
/** So often a guest says that it gives more credit than a stream may hold. */
const CREDITS = 200

interface QueueReport extends Report {
  readonly devices: readonly number[]
  /** Requests of a driver that were answered. */
  readonly 'honest used'?: number
  readonly 'false ignored'?: number
}

/** Root of the guest replaces the drivers of its devices; the host and a neighbour keep answering. */
// Skip: QEMU and the kernel of guests are installed only when asked for.
describe.skipIf(missing !== undefined)(`a guest without drivers${missing ? `: ${missing}` : ''}`, () => {
  let factory: MicrovmFactory
  let engine: MicrovmEngine
  let neighbour: Burrow

  beforeAll(async () => {
    factory = await microvmFactory()
    engine = await factory.open()
    neighbour = await engine.createBurrow({ sandboxId: newSandboxId(), template: 'python' })
  }, BOOT_TIMEOUT_MS)
  afterAll(async () => {
    await engine?.[Symbol.asyncDispose]()
    await factory?.cleanUp()
  })
  const sh = async (burrow: Burrow, code: string) =>
    (await burrow.guest.runs.run({ code, language: 'bash' })).stdout.trim()
  const neighbourAnswers = async () => expect(await sh(neighbour, 'echo here')).toBe('here')

  /** A machine with a program of the attacker. */
  async function attacker(program: string): Promise<MicrovmBurrow> {
    const burrow = await engine.createBurrow({ sandboxId: newSandboxId(), template: 'python' })
    await burrow.guest.files.write('/root/attack.py', await readFile(new URL(program, import.meta.url)))
    return burrow as MicrovmBurrow
  }

  async function leavesNoTrace(burrow: Burrow): Promise<void> {
    await neighbourAnswers()
    await burrow.destroy()
    expect((await factory.traces()).filter((trace) => trace.includes(burrow.id))).toEqual([])
  }

  /** Post: its root has taken the port of the link from PID 1. */
  async function hijack(burrow: Burrow, how: 'junk' | 'credit'): Promise<void> {
    const held = sh(burrow, 'sleep 1000').catch((error: unknown) => error)
    // The answer may be lost already.
    void burrow.guest.processes
      .start({ shell: `python3 /root/attack.py ${how} 2> /dev/ttyS0` })
      .catch(() => {})
    expect(await held).toMatchObject({ code: 'agent_unreachable' })
  }

  test('it floods its link without end: the host keeps little of it, hangs up, and says why', async () => {
    const burrow = await attacker('hijack-link.py')
    const before = heldBytes()
    await hijack(burrow, 'junk')
    let isOver = false
    void burrow.link.closed.then(() => {
      isOver = true
    })
    while (!isOver) {
      await neighbourAnswers()
      expect(heldBytes() - before).toBeLessThan(HELD_MAX_BYTES)
    }
    const why = expect.stringContaining('the guest sends only what has no use')
    await expect(burrow.link.open('agent')).rejects.toMatchObject({ code: 'agent_unreachable', message: why })
    await expect(burrow.guest.info()).rejects.toMatchObject({ code: 'agent_unreachable' })
    await leavesNoTrace(burrow)
  })

  test('it gives credit without end and never reads: a program of the host waits, and its bytes with it', async () => {
    const burrow = await attacker('hijack-link.py')
    await hijack(burrow, 'credit')
    const before = heldBytes()
    const stream = await burrow.link.open({ port: 80 })
    let sent = 0
    const fill = () => {
      for (let hasRoom = true; hasRoom && sent < FLOOD_BYTES; sent += 65_536)
        hasRoom = stream.write(Buffer.alloc(65_536))
    }
    stream.on('drain', fill)
    let credits = 0
    const given = new Promise<void>((resolve, reject) => {
      stream.on('data', (chunk: Buffer) => {
        credits += chunk.length
        if (credits >= CREDITS) resolve()
      })
      stream.once('error', reject)
    })
    fill()
    await given
    expect(sent).toBeLessThan(HELD_MAX_BYTES / 2)
    expect(heldBytes() - before).toBeLessThan(HELD_MAX_BYTES)
    await leavesNoTrace(burrow)
  })

  test.each([
    ['some of its devices', 'careful', [KIND.network, KIND.random, KIND.balloon], [1, 4, 5]],
    // A network card, two disks, the port to the host, random numbers and the balloon.
    ['all of its devices', 'reckless', Object.values(KIND), [1, 2, 2, 3, 4, 5]],
  ] as const)(
    'it gives %s malformed queues, %s: honest requests are served, and the machine may end',
    async (...row) => {
      const [, how, kinds, devices] = row
      const burrow = await attacker('fuzz-queues.py')
      let end: BurrowEnd | undefined
      void burrow.ended.then((reason) => {
        end = reason
      })
      const attack = `/root/attack.py ${SEED} ${ROUNDS} /dev/ttyS0 ${how} ${kinds.join(' ')}`
      // The answer may be lost already.
      void burrow.guest.processes.start({ shell: `setsid python3 ${attack} 2> /dev/ttyS0` }).catch(() => {})
      const last = await lastReport<QueueReport>(burrow, neighbourAnswers)
      expect(last.devices).toEqual(devices)
      expect(last['false ignored']).toBeGreaterThan(0)
      // What overwrites the kernel of the guest may overwrite this program.
      if (how === 'careful') expect(last['honest used']).toBe(Math.floor(last.rounds / HONEST_EVERY))
      else expect(last['honest used']).toBeGreaterThan(0)
      await neighbourAnswers()
      if (end !== undefined) {
        expect(end).toEqual({ reason: 'killed' })
        const message = 'The virtual machine of the sandbox ended.'
        await expect(burrow.guest.info()).rejects.toMatchObject({ code: 'burrow_ended', message })
      }
      await leavesNoTrace(burrow)
    },
    timeoutOf(ROUNDS),
  )
})
