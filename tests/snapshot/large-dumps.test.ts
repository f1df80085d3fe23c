import { setTimeout as sleep } from 'node:timers/promises'
import { newSandboxId } from '@dormouse/contracts'
import type { Burrow, Engine } from '@dormouse/engine'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { linuxFactory } from '../engine-linux/linux-factory.ts'
import { heldBytes } from '../held-memory.ts'

const factory = await linuxFactory()
let engine: Engine
beforeAll(async () => {
  engine = await factory.open()
})
afterAll(async () => {
  await engine?.[Symbol.asyncDispose]()
  await factory.cleanUp()
})

async function withBurrow(work: (burrow: Burrow) => Promise<void>): Promise<void> {
  const burrow = await engine.createBurrow({
    sandboxId: newSandboxId(),
    template: 'python',
    limits: { memoryBytes: 2 * 1024 ** 3 },
  })
  try {
    await work(burrow)
  } finally {
    await burrow.destroy()
  }
}

async function run(burrow: Burrow, code: string): Promise<string> {
  const { exitCode, stdout, stderr } = await burrow.guest.runs.run({ code })
  expect(stderr).toBe('')
  expect(exitCode).toBe(0)
  return stdout.trim()
}

/** Children that do something and then sleep; ends when all have done it. */
const CHILDREN = `
import ctypes, mmap, os, resource, sys, time
def children(count, do):
    pids = []
    for _ in range(count):
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reader)
            try: do(); os.write(writer, b"1")
            finally: os.close(writer)
            time.sleep(100_000)
        os.close(writer)
        assert os.read(reader, 1) == b"1"
        os.close(reader)
        pids.append(pid)
    return pids
`

/** The longest time that this thread did not come round to a timer, in milliseconds. */
async function longestStall<Value>(work: Promise<Value>): Promise<{ stallMs: number; value: Value }> {
  let stallMs = 0
  let isOver = false
  const watch = (async () => {
    for (let before = performance.now(); !isOver; before = performance.now()) {
      await sleep(5)
      stallMs = Math.max(stallMs, performance.now() - before - 5)
    }
  })()
  const value = await work
  isOver = true
  await watch
  return { stallMs, value }
}

test('more open descriptors than can be saved are refused before the dump, with their number', async () => {
  await withBurrow(async (burrow) => {
    await run(
      burrow,
      `${CHILDREN}
def many():
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    for _ in range(min(limit - 50, 40_000)): os.open("/dev/null", os.O_RDONLY)
pids = children(3 if resource.getrlimit(resource.RLIMIT_NOFILE)[1] > 40_000 else 20, many)`,
    )
    const refusal = await engine.snapshot(burrow, { leave: 'running' }).catch((error: unknown) => error)
    expect(refusal).toMatchObject({
      code: 'snapshot_refused',
      message: expect.stringMatching(/it has \d+ open descriptors, at most 65536 can be saved/),
      details: { what: 'open descriptors', max: 65_536 },
    })
    expect(await run(burrow, 'print(len(pids))')).toMatch(/^(3|20)$/)
  })
})

test('more memory mappings than can be saved are refused, others are served meanwhile, and the sandbox continues', async () => {
  await withBurrow(async (burrow) => {
    await run(
      burrow,
      `${CHILDREN}
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
def many():
    # Neighbours with other rights do not become one.
    for n in range(50_000): libc.mmap(None, 4096, 1 + n % 2 * 2, 0x22, -1, 0)
pids = children(3, many)`,
    )
    const before = heldBytes()
    const attempt = engine.snapshot(burrow, { leave: 'running' }).catch((error: unknown) => error)
    const { stallMs, value } = await longestStall(attempt)
    expect(value).toMatchObject({
      code: 'snapshot_refused',
      details: { what: 'memory mappings', max: 131_072 },
    })
    expect(stallMs).toBeLessThan(1_000)
    expect(heldBytes() - before).toBeLessThan(64 * 1024 ** 2)
    expect(await run(burrow, 'print(len(pids))')).toBe('3')
  })
})

test('sixty thousand open files are saved and come back, and others are served meanwhile', async () => {
  await withBurrow(async (burrow) => {
    await run(
      burrow,
      `${CHILDREN}
limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
each = min(limit - 50, 15_000)
def many():
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    for _ in range(each): os.open("/etc/passwd", os.O_RDONLY)
pids = children(60_000 // each, many)
def count(): return sum(len(os.listdir(f"/proc/{pid}/fd")) for pid in pids)
print(count())`,
    )
    const held = await run(burrow, 'print(count())')
    const before = heldBytes()
    const { stallMs, value } = await longestStall(engine.snapshot(burrow, { leave: 'running' }))
    expect(stallMs).toBeLessThan(1_000)
    expect(heldBytes() - before).toBeLessThan(64 * 1024 ** 2)
    const next = value.burrow as Burrow
    expect(await run(next, 'print(count())')).toBe(held)
    await next.destroy()
  })
})
