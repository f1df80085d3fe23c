import { readFile } from 'node:fs/promises'
import { newSandboxId, type ProcessEvent } from '@dormouse/contracts'
import type { Burrow, Engine } from '@dormouse/engine'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { linuxFactory } from '../engine-linux/linux-factory.ts'
import { findJemalloc } from './find-jemalloc.ts'

const LIBRARY = '/opt/libjemalloc.so.2'

/**
 * Fills and frees blocks, sleeps in between, and says what calloc gives. A line on stdin wakes it; one that says
 * `deaf` makes the guard forget what was restored, so that it does nothing any more.
 */
const PROGRAM = `
import ctypes, os, sys
ALL_ARENAS, BLOCKS, BYTES = 4096, 64, 256 << 10
libc = ctypes.CDLL(None)
for name in ("malloc", "calloc"):
    getattr(libc, name).restype = ctypes.c_void_p
    getattr(libc, name).argtypes = [ctypes.c_size_t] * (2 if name == "calloc" else 1)
libc.free.argtypes = [ctypes.c_void_p]

def purge():
    failed = libc.mallctl(b"arena.%d.purge" % ALL_ARENAS, None, None, None, ctypes.c_size_t(0))
    assert failed == 0, failed

def fill(byte, allocate):
    blocks = [allocate() for _ in range(BLOCKS)]
    for block in blocks: ctypes.memset(block, byte, BYTES)
    return blocks

def mapped():
    return sum(1 for line in open("/proc/self/maps") if "/.dormouse/memory/" in line)

kept = fill(0x55, lambda: libc.malloc(BYTES))
blocks = fill(0xAA, lambda: libc.malloc(BYTES))
assert mapped() == 0
print("full", flush=True)

for line in sys.stdin:
    assert mapped() > 0, "nothing of it was restored from a memory file"
    if line == "deaf\\n":
        table = ctypes.CDLL("/.dormouse/lib/libdormouse-guard.so")
        (ctypes.c_uint32 * 8).in_dll(table, "dormouse_guard_table")[4] = 0
    old = 0
    for _ in range(5):
        for block in blocks: libc.free(block)
        purge()
        blocks = [libc.calloc(1, BYTES) for _ in range(BLOCKS)]
        old += sum(1 for block in blocks if ctypes.string_at(block, BYTES) != bytes(BYTES))
        for block in blocks: ctypes.memset(block, 0xBB, BYTES)
    whole = all(ctypes.string_at(block, BYTES) == b"\\x55" * BYTES for block in kept)
    print("old bytes" if old else "zeros", "whole" if whole else "damaged", flush=True)
`

interface Started {
  readonly processId: string
  seen: number
}

const factory = await linuxFactory()
const burrows: Burrow[] = []
let engine: Engine
let burrow: Burrow

beforeAll(async () => {
  engine = await factory.open()
  burrow = hold(await engine.createBurrow({ sandboxId: newSandboxId(), template: 'python' }))
  await burrow.guest.files.write(LIBRARY, await readFile(findJemalloc()), { parents: true })
  await burrow.guest.files.write('/opt/program.py', PROGRAM)
})

afterAll(async () => {
  await Promise.allSettled(burrows.map((each) => each.destroy()))
  await engine?.[Symbol.asyncDispose]()
  await factory.cleanUp()
})

function hold(made: Burrow): Burrow {
  burrows.push(made)
  return made
}

/** Python itself is on jemalloc as well: all of its objects come through the sleep with it. */
async function start(conf: string): Promise<Started> {
  const env = { LD_PRELOAD: LIBRARY, MALLOC_CONF: conf, PYTHONMALLOC: 'malloc' }
  const processId = await burrow.guest.processes.start({
    args: ['python3', '/opt/program.py'],
    env,
    stdin: true,
  })
  const started = { processId, seen: -1 }
  expect(await nextLine(started)).toBe('full')
  return started
}

async function nextLine(process: Started): Promise<string> {
  let text = ''
  const events: AsyncIterable<ProcessEvent> = burrow.guest.processes.events(process.processId, {
    after: process.seen,
  })
  for await (const event of events) {
    process.seen = event.seq
    if (event.type === 'stdout' || event.type === 'stderr') text += event.data
    if (text.endsWith('\n') || event.type === 'exit') break
  }
  return text.trim()
}

async function ask(process: Started, question: string): Promise<string> {
  await burrow.guest.processes.writeStdin(process.processId, `${question}\n`, { close: false })
  return nextLine(process)
}

test('jemalloc purges what a wake has mapped, and callocs zeros; without the guard it would not', async () => {
  const settings = ['', 'dirty_decay_ms:0,muzzy_decay_ms:0', 'background_thread:true,dirty_decay_ms:1']
  const guarded = await Promise.all(settings.map(start))
  const deaf = await start('')
  for (const how of ['restore', 'fork'] as const) {
    burrow = how === 'fork' ? await forked() : await woken()
    for (const process of guarded) expect(await ask(process, 'go on')).toBe('zeros whole')
  }
  expect(await ask(deaf, 'deaf')).toBe('old bytes whole')
})

test('the guard comes behind the libraries that a process asks for, so that theirs replace its functions', async () => {
  const env = { LD_PRELOAD: LIBRARY }
  const processId = await burrow.guest.processes.start({ args: ['printenv', 'LD_PRELOAD'], env })
  expect(await nextLine({ processId, seen: -1 })).toBe(`${LIBRARY}:/.dormouse/lib/libdormouse-guard.so`)
})

async function woken(): Promise<Burrow> {
  const { snapshot } = await engine.snapshot(burrow, { leave: 'gone' })
  return hold(await engine.restore(snapshot.id, { sandboxId: newSandboxId() }))
}

async function forked(): Promise<Burrow> {
  const { parent, children } = await engine.fork(burrow, { sandboxIds: [newSandboxId()] })
  hold(parent)
  return hold(children[0]!)
}
