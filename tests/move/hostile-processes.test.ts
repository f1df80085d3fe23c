import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { LinuxEngine } from '@dormouse/engine-linux'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { LinuxBurrow } from '../../packages/engine-linux/src/burrow/linux-burrow.ts'
import { moverCommand } from '../../packages/engine-linux/src/snapshot/move-memory.ts'
import { linuxFactory } from '../engine-linux/linux-factory.ts'
import { testDataDir } from '../test-data-dir.ts'
import { createBurrow, move, python, toolsDirOf } from './moved-burrow.ts'

const factory = await linuxFactory()
const engine = await LinuxEngine.open({ dataDir: testDataDir, stateDir: factory.stateDir })
let burrow: LinuxBurrow
beforeAll(async () => {
  burrow = await createBurrow(engine)
  await python(
    burrow,
    `import os, time, zlib, ctypes, mmap, threading, json
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
ANONYMOUS = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
def area(size, protection=3, flags=ANONYMOUS):
    address = libc.mmap(None, size, protection, flags, -1, 0)
    assert address not in (None, ctypes.c_void_p(-1).value), os.strerror(ctypes.get_errno())
    if protection & 2: ctypes.memset(address, 9, size)
    return address
def flags_at(address):
    found = False
    for line in open("/proc/self/smaps"):
        if "-" in line.split()[0]:
            start, end = (int(part, 16) for part in line.split()[0].split("-"))
            found, name = start <= address < end, line.split(None, 5)[5:]
        elif found and line.startswith("ProtectionKey"): name += line.split()[1:]
        elif found and line.startswith("VmFlags"): return line.split()[1:], name
ballast = os.urandom(60_000_000); ballast_sum = zlib.crc32(ballast)`,
  )
})
afterAll(async () => {
  await burrow?.destroy()
  await engine[Symbol.asyncDispose]()
  await factory.cleanUp()
})

/** seccomp: load the number; 257 (openat) and 9 (mmap) kill the process; allow. */
const FILTER = `code = b"".join(n.to_bytes(2, "little") + bytes([t, f]) + k.to_bytes(4, "little") for n, t, f, k in [
        (0x20, 0, 0, 0), (0x15, 1, 0, 257), (0x15, 0, 1, 9), (6, 0, 0, 0x80000000), (6, 0, 0, 0x7fff0000)])
    block = ctypes.create_string_buffer(code)
    program = ctypes.create_string_buffer((5).to_bytes(8, "little") + ctypes.addressof(block).to_bytes(8, "little"))
    assert libc.prctl(22, 2, program, 0, 0) == 0, ctypes.get_errno()`

test('memory that is locked, shared, executable, not inherited, or has a protection key is left alone', async () => {
  const made = await python(
    burrow,
    `S = 4 << 20
kinds = dict(locked=area(S), shared=area(S, flags=mmap.MAP_SHARED | mmap.MAP_ANONYMOUS), executable=area(S, 7), wiped=area(S), single=area(S), reserved=area(S, 0))
assert libc.mlock(ctypes.c_void_p(kinds["locked"]), S) == 0
assert libc.madvise(ctypes.c_void_p(kinds["wiped"]), S, 18) == 0
assert libc.madvise(ctypes.c_void_p(kinds["single"]), S, 10) == 0
kinds["keyed"] = area(S); key = libc.pkey_alloc(0, 0)
# CPUs without protection keys have none.
if key > 0: assert libc.pkey_mprotect(ctypes.c_void_p(kinds["keyed"]), S, 3, key) == 0
else: del kinds["keyed"]
before = {k: flags_at(v) for k, v in kinds.items()}
print(len(before) - (key > 0))`,
  )
  expect(made).toBe('6')
  expect((await move(burrow)).movedBytes).toBeGreaterThan(55e6)
  expect(
    await python(burrow, 'after = {k: flags_at(v) for k, v in kinds.items()}; print(before == after)'),
  ).toBe('True')
  expect(await python(burrow, 'print(zlib.crc32(ballast) == ballast_sum)')).toBe('True')
})

test('a process that maps, protects and frees memory all the time keeps its content', async () => {
  await python(
    burrow,
    `wrong, rounds, over = [], [0], threading.Event()
def churn():
    while not over.is_set():
        size = 2 << 20
        m = mmap.mmap(-1, size * 2, flags=ANONYMOUS)
        m[:size] = b"a" * size
        address = ctypes.addressof(ctypes.c_char.from_buffer(m))
        libc.mprotect(ctypes.c_void_p(address), size, 1); libc.mprotect(ctypes.c_void_p(address), size, 3)
        m.madvise(mmap.MADV_DONTNEED, 0, size // 2)
        if m[:size // 2].count(0) != size // 2 or m[size // 2:size].count(b"a") != size // 2: wrong.append(rounds[0])
        libc.munmap(ctypes.c_void_p(address + size), size)
        again = libc.mmap(ctypes.c_void_p(address + size), size, 3, ANONYMOUS | 0x10, -1, 0)
        if ctypes.string_at(address + size, size).count(0) != size: wrong.append("new")
        rounds[0] += 1
threads = [threading.Thread(target=churn, daemon=True) for _ in range(3)]
for t in threads: t.start()
more = os.urandom(80_000_000); more_sum = zlib.crc32(more)`,
  )
  await move(burrow)
  await move(burrow)
  expect(await python(burrow, 'over.set(); print(wrong, rounds[0] > 0, zlib.crc32(more) == more_sum)')).toBe(
    '[] True True',
  )
})

test.for([
  ['a filter of its own that kills it for openat and mmap', `${FILTER}`],
  [
    'system calls that it handles itself',
    'assert libc.prctl(59, 1, 0, 0, ctypes.create_string_buffer(1)) == 0',
  ],
  [
    'a guard table full of lies',
    'ctypes.memset(ctypes.addressof(ctypes.c_char.in_dll(libc, "dormouse_guard_table")) + 16, 255, 64)',
  ],
  ['another root', 'os.makedirs("/tmp/root/.dormouse/memory", exist_ok=True); os.chroot("/tmp/root")'],
  ['no descriptor left', 'import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (0, 0))'],
  ['all signals blocked', 'import signal; signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 64))'],
] as const)('a process with %s lives on as it was', async ([, prepare]) => {
  await python(
    burrow,
    `ready, go, done = os.pipe(), os.pipe(), os.pipe()
child = os.fork()
if child == 0:
    data = os.urandom(30_000_000); checksum = zlib.crc32(data)
    os.write(ready[1], b"r")
    ${prepare}
    os.write(ready[1], b"r")
    os.read(go[0], 1)
    os.write(done[1], b"y" if zlib.crc32(data) == checksum else b"n")
    libc.syscall(60, 0)
for _ in range(2): os.read(ready[0], 1)`,
  )
  await move(burrow)
  expect(
    await python(burrow, 'os.write(go[1], b"g"); print(os.read(done[0], 1)); print(os.waitpid(child, 0)[1])'),
  ).toBe("b'y'\n0")
})

test('a thread that waits in vfork cannot be stopped, so nothing is moved and all go on', async () => {
  await python(
    burrow,
    `os.mkfifo("/tmp/held")
def spawn():
    # Not os.posix_spawn: it would keep all other Python threads waiting.
    actions, pid = ctypes.create_string_buffer(256), ctypes.c_int()
    libc.posix_spawn_file_actions_init(actions)
    libc.posix_spawn_file_actions_addopen(actions, 9, b"/tmp/held", os.O_RDONLY, 0)
    arguments = (ctypes.c_char_p * 2)(b"true", None)
    assert libc.posix_spawn(ctypes.byref(pid), b"/bin/true", actions, None, arguments, (ctypes.c_char_p * 1)(None)) == 0
    spawned.append(pid.value)
spawned, beats = [], []
spawner = threading.Thread(target=spawn); spawner.start()
def beat():
    while len(spawned) == 0: beats.append(1); time.sleep(0.001)
threading.Thread(target=beat, daemon=True).start()
extra = os.urandom(30_000_000); extra_sum = zlib.crc32(extra); count = len(beats)`,
  )
  expect((await move(burrow)).movedBytes).toBe(0)
  const look = `time.sleep(0.05); open("/tmp/held", "w").close(); spawner.join()
print(os.waitpid(spawned[0], 0)[1], zlib.crc32(extra) == extra_sum, len(beats) > count)`
  expect(await python(burrow, look)).toBe('0 True True')
  expect((await move(burrow)).movedBytes).toBeGreaterThan(25e6)
})

test('no forbidden system call gets through while memory is moved', async () => {
  await python(
    burrow,
    `seen, asking = set(), True
def ask():
    while asking:
        # io_uring_setup: without its filters, a process gets EFAULT.
        libc.syscall(425, 1, None); seen.add(ctypes.get_errno())
askers = [threading.Thread(target=ask, daemon=True) for _ in range(2)]
for t in askers: t.start()
time.sleep(0.1); before = set(seen)
fodder = os.urandom(60_000_000)`,
  )
  await move(burrow)
  expect(await python(burrow, 'asking = False; print(len(before), seen == before)')).toBe('1 True')
})

test('`kill -9` of the mover at any moment leaves every process running and unharmed', async () => {
  await python(
    burrow,
    `ticks = [0]
def tick():
    while True: ticks[0] += 1; time.sleep(0.0005)
threading.Thread(target=tick, daemon=True).start()`,
  )
  for (let round = 0; round < 12; round += 1) {
    await python(burrow, 'fresh = os.urandom(24_000_000); fresh_sum = zlib.crc32(fresh)')
    const [program, ...rest] = (await moverCommand(burrow, { toolsDir: toolsDirOf(burrow) }))?.argv ?? ['']
    const mover = spawn(program, rest, { stdio: ['pipe', 'pipe', 'ignore'] })
    await once(mover.stdout, 'data')
    await sleep(Math.random() * 6)
    const ended = once(mover, 'exit')
    mover.kill('SIGKILL')
    await ended
    // Waits for a tick without an end: the run would time out.
    const look = 'n = ticks[0]\nwhile ticks[0] == n: time.sleep(0.001)\nprint(zlib.crc32(fresh) == fresh_sum)'
    expect(await python(burrow, look)).toBe('True')
  }
  expect(await python(burrow, 'print(zlib.crc32(ballast) == ballast_sum)')).toBe('True')
  const { burrow: woken } = await engine.snapshot(burrow, { leave: 'running' })
  burrow = woken as unknown as LinuxBurrow
  expect(
    await python(burrow, 'print(zlib.crc32(ballast) == ballast_sum, zlib.crc32(fresh) == fresh_sum)'),
  ).toBe('True True')
})
