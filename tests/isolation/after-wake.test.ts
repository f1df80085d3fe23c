import { readdirSync, readFileSync } from 'node:fs'
import { newSandboxId } from '@dormouse/contracts'
import type { Burrow, Engine } from '@dormouse/engine'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { LinuxBurrow } from '../../packages/engine-linux/src/burrow/linux-burrow.ts'
import { linuxFactory } from '../engine-linux/linux-factory.ts'

/**
 * CHOWN, DAC_OVERRIDE, FOWNER, FSETID, KILL, SETGID, SETUID, SETPCAP, NET_BIND_SERVICE, SYS_CHROOT, AUDIT_WRITE,
 * SETFCAP.
 */
const CAPABILITIES = 0xa00405fbn
/** What a cycle adds or drops shows after a few as well as after many. */
const CYCLES = 6

const factory = await linuxFactory()
let engine: Engine
let burrow: Burrow
beforeAll(async () => {
  engine = await factory.open()
  burrow = await engine.createBurrow({ sandboxId: newSandboxId(), template: 'python' })
  // Threads of one process, and users; one process has loaded a filter of its own that allows everything.
  const run = await burrow.guest.runs.run({
    code: `
import ctypes, os, struct, subprocess, threading, time
threads = [threading.Thread(target=time.sleep, args=(1000,), daemon=True) for _ in range(3)]
for thread in threads: thread.start()
child = subprocess.Popen(["sleep", "1000"], user="nobody")
has_loaded, tell = os.pipe()
own = os.fork()
if own == 0:
    program = ctypes.create_string_buffer(struct.pack("HBBI", 0x06, 0, 0, 0x7fff0000))
    ctypes.CDLL(None).prctl(22, 2, struct.pack("HxxxxxxQ", 1, ctypes.addressof(program)))
    os.write(tell, b"x")
    time.sleep(1000)
os.read(has_loaded, 1)
print("made")`,
  })
  expect(run).toMatchObject({ exitCode: 0, stdout: 'made\n' })
})
afterAll(async () => {
  await engine?.[Symbol.asyncDispose]()
  await factory.cleanUp()
})

interface Thread {
  readonly name: string
  readonly isFirst: boolean
  readonly field: (name: string) => string
}

/** Every thread in the burrow, as the host's kernel tells of it. */
async function threadsOf(one: Burrow): Promise<Thread[]> {
  const { first } = one as LinuxBurrow
  return (await (one as LinuxBurrow).pids()).flatMap((pid) =>
    readdirSync(`/proc/${pid}/task`).map((tid) => {
      const text = readFileSync(`/proc/${pid}/task/${tid}/status`, 'utf8')
      const field = (name: string) => new RegExp(`^${name}:\\s*(.*)$`, 'm').exec(text)?.[1] ?? ''
      return { name: field('Name'), isFirst: pid === first.pid, field }
    }),
  )
}

async function expectConfined(one: Burrow): Promise<Record<string, string>> {
  const threads = await threadsOf(one)
  expect(threads.length).toBeGreaterThan(6)
  for (const { name, isFirst, field } of threads) {
    expect([name, field('NoNewPrivs'), field('Seccomp')]).toEqual([name, '1', '2'])
    for (const set of ['CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb'])
      expect([name, BigInt(`0x${field(set)}`) & ~(isFirst ? 0n : CAPABILITIES)]).toEqual([name, 0n])
  }
  return Object.fromEntries(
    threads.map(({ field }) => [field('NSpid').split(/\s+/).at(-1), field('Seccomp_filters')]),
  )
}

describe('every thread of a sandbox', () => {
  test('carries three filters, no_new_privs and few capabilities, PID 1 a filter and none', async () => {
    const counts = await expectConfined(burrow)
    expect(counts['1']).toBe('1')
    expect(counts['2']).toBe('3')
    // But for the one with its own.
    expect(Object.values(counts).sort().slice(0, -1)).toEqual([
      '1',
      ...Array(Object.keys(counts).length - 2).fill('3'),
    ])
    expect(Object.values(counts).sort().at(-1)).toBe('4')
  })

  test(`carries as many after ${CYCLES} sleeps`, { timeout: 120_000 }, async () => {
    const before = await expectConfined(burrow)
    for (let cycle = 0; cycle < CYCLES; cycle += 1) {
      const { snapshot, burrow: next } = await engine.snapshot(burrow, { leave: 'running' })
      burrow = next!
      await engine.deleteSnapshot(snapshot.id).catch(() => {})
    }
    expect(await expectConfined(burrow)).toEqual(before)
  })
})

test('a sandbox that boots carries what one that wakes does', async () => {
  const { snapshot } = await engine.snapshot(burrow, { kind: 'files', leave: 'gone' })
  const booted = await engine.restore(snapshot.id, { sandboxId: burrow.sandboxId })
  await booted.guest.runs.run({
    code: 'import threading, time; [threading.Thread(target=time.sleep, args=(1000,), daemon=True).start() for _ in range(5)]',
  })
  const counts = await expectConfined(booted)
  expect(new Set(Object.values(counts))).toEqual(new Set(['1', '3']))
  await booted.destroy()
})
