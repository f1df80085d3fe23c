import { readdir } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { LinuxEngine } from '@dormouse/engine-linux'
import { afterAll, expect, test } from 'vitest'
import { linuxFactory } from '../engine-linux/linux-factory.ts'
import { testDataDir } from '../test-data-dir.ts'
import { createBurrow, move, python } from './moved-burrow.ts'

const factory = await linuxFactory()
const engine = await LinuxEngine.open({ dataDir: testDataDir, stateDir: factory.stateDir })
afterAll(async () => {
  await engine[Symbol.asyncDispose]()
  await factory.cleanUp()
})
const MB = 1e6

async function movedFiles({ paths }: { paths: { memory: string } }): Promise<string[]> {
  return (await readdir(paths.memory)).filter((name) => /m-\d+$/.test(name))
}

/** Memory with known content, and threads that wait in system calls, run, and handle signals. */
const BUSY = `
import os, threading, time, signal, select, zlib
import numpy as np
data = np.random.default_rng(7).integers(0, 255, 120_000_000, dtype=np.uint8)
checksum, address = zlib.crc32(data), data.ctypes.data
counts, troubles = dict(ticks=0, sleeps=0, reads=0, selects=0, alarms=0), []
def tick():
    while True: counts["ticks"] += 1; time.sleep(0.0002)
def nap():
    while True:
        start = time.monotonic(); time.sleep(0.02)
        if time.monotonic() - start < 0.0199: troubles.append("short sleep")
        counts["sleeps"] += 1
ours, theirs = os.pipe()
def read():
    while True:
        if os.read(ours, 1) != b"x": troubles.append("wrong read")
        counts["reads"] += 1
def wait():
    while True:
        if select.select([], [], [], 0.013) != ([], [], []): troubles.append("wrong select")
        counts["selects"] += 1
def alarm(*_): counts["alarms"] += 1
signal.signal(signal.SIGALRM, alarm)
signal.setitimer(signal.ITIMER_REAL, 0.005, 0.005)
for work in [tick, nap, read, wait]: threading.Thread(target=work, daemon=True).start()
def maps(): return open("/proc/self/maps").read()
`

test('content, addresses, threads, waits and signals of a process survive a move, and a sleep after it', async () => {
  const burrow = await createBurrow(engine)
  await python(burrow, BUSY)
  const before = await burrow.anonymousBytes()
  const { movedBytes, pausesMs } = await move(burrow)
  expect(movedBytes).toBeGreaterThan(120 * MB)
  expect(pausesMs.length).toBeGreaterThan(10)
  expect(await burrow.anonymousBytes()).toBeLessThan(before - 100 * MB)
  const look = `before = dict(counts); os.write(theirs, b"x" * 3); time.sleep(0.3)
print(zlib.crc32(data) == checksum, data.ctypes.data == address, troubles, [k for k in counts if counts[k] == before[k]], "/.dormouse/memory/" in maps())`
  expect(await python(burrow, look)).toBe('True True [] [] True')
  // Writes are the process's own.
  await python(burrow, 'data[::4096] += 1; checksum = zlib.crc32(data)')
  const { burrow: woken, snapshot } = await engine.snapshot(burrow, { leave: 'running' })
  expect(await python(woken as never, look)).toBe('True True [] [] True')
  await engine.verifySnapshot(snapshot.id)
  await woken?.destroy()
})

test('a move that is interrupted stops soon, loses nothing, and the next one continues', async () => {
  const burrow = await createBurrow(engine)
  await python(burrow, BUSY)
  const abort = new AbortController()
  const moving = move(burrow, abort.signal)
  await sleep(60)
  abort.abort()
  const first = await moving
  expect(first.movedBytes).toBeLessThan(120 * MB)
  expect(await python(burrow, 'print(zlib.crc32(data) == checksum, troubles)')).toBe('True []')
  const second = await move(burrow)
  expect(first.movedBytes + second.movedBytes).toBeLessThan(200 * MB)
  expect(await burrow.anonymousBytes()).toBeLessThan(60 * MB)
  expect(await python(burrow, 'print(zlib.crc32(data) == checksum, troubles)')).toBe('True []')
  await burrow.destroy()
})

test('files of memory that the programs have let go of are removed before the next move, and no others', async () => {
  const burrow = await createBurrow(engine)
  await python(burrow, `${BUSY}\nlet_go = np.ones(40_000_000, dtype=np.uint8)`)
  for (let round = 0; round < 20; round++) {
    expect((await move(burrow)).movedBytes).toBeGreaterThan(30 * MB)
    await python(burrow, 'let_go = None; let_go = np.ones(40_000_000, dtype=np.uint8)')
  }
  // Some have a little that stays, or is let go of later.
  const moves = new Set((await movedFiles(burrow)).map((name) => name.split('-')[1]))
  expect(moves.size).toBeLessThan(14)
  expect(await python(burrow, 'print(zlib.crc32(data) == checksum, troubles)')).toBe('True []')
  const { burrow: woken } = await engine.snapshot(burrow, { leave: 'running' })
  expect(await python(woken as never, 'print(zlib.crc32(data) == checksum, let_go.all())')).toBe('True True')
  await woken?.destroy()
})

test('moved memory behaves like anonymous memory: advice, growth, protection, a child', async () => {
  const burrow = await createBurrow(engine)
  await python(
    burrow,
    `import mmap, os
m = mmap.mmap(-1, 64 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
m[:] = b"\\x07" * len(m)`,
  )
  expect((await move(burrow)).movedBytes).toBeGreaterThan(60 * MB)
  const code = `
m.madvise(mmap.MADV_DONTNEED, 0, 8 << 20)
zeros = m[:8 << 20].count(0) == 8 << 20
child = os.fork()
if child == 0:
    m[32 << 20] = 1; ok = m[33 << 20] == 7 and m[0] == 0
    os._exit(0 if ok else 1)
status = os.waitpid(child, 0)[1]
kept = m[32 << 20] == 7
m.resize(96 << 20)
print(zeros, status, kept, m[63 << 20] == 7, m[64 << 20:].count(0) == 32 << 20)`
  expect(await python(burrow, code)).toBe('True 0 True True True')
  await burrow.destroy()
})

test('many processes, of other users too, and one that a signal has stopped', async () => {
  const burrow = await createBurrow(engine)
  await python(
    burrow,
    `import os, time, zlib, signal
def grow(index):
    data = os.urandom(24_000_000); checksum = zlib.crc32(data)
    if index % 2: os.setuid(1000)
    open(f"/tmp/ready-{index}", "w").close()
    while not os.path.exists("/tmp/check"): time.sleep(0.01)
    os._exit(0 if zlib.crc32(data) == checksum else 1)
os.umask(0)
children = []
for index in range(6):
    pid = os.fork()
    if pid == 0: grow(index)
    children.append(pid)
while not all(os.path.exists(f"/tmp/ready-{i}") for i in range(6)): time.sleep(0.01)
os.kill(children[0], signal.SIGSTOP)
def state(pid): return open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[0]
while state(children[0]) != "T": time.sleep(0.01)`,
  )
  // Of 144: some of it lies in free space of the template's heap, which is mapped from a file already.
  expect((await move(burrow)).movedBytes).toBeGreaterThan(130 * MB)
  const look = `print(state(children[0]))
os.kill(children[0], signal.SIGCONT); open("/tmp/check", "w").close()
print([os.waitpid(pid, 0)[1] for pid in children])`
  expect(await python(burrow, look)).toBe('T\n[0, 0, 0, 0, 0, 0]')
  await burrow.destroy()
})
