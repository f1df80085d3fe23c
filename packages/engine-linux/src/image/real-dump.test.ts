import {
  chmodSync,
  copyFileSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { chown, mkdir } from 'node:fs/promises'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { testDataDir } from '../../../../tests/test-data-dir.ts'
import { launchInit } from '../burrow/launch-init.ts'
import { findCriu } from '../criu/find-criu.ts'
import { runCriu } from '../criu/run-criu.ts'
import { runCommandOrFail } from '../host/run-command.ts'
import { guardLibrary } from '../native-programs.ts'
import {
  type FirstProcess,
  findFirstProcess,
  killFirstProcess,
  waitForEnd,
} from '../process/first-process.ts'
import { UID_BASE } from '../template/shifted-root.ts'
import { getTemplate } from '../template/template-store.ts'
import { type Clocks, readClocks } from './clocks.ts'
import { parseImage, readImage, serializeImage } from './image-file.ts'
import { type MappedImage, mapMemory } from './map-memory.ts'
import { readTask } from './map-task.ts'
import { PageWorker } from './page-worker.ts'

/**
 * Runs instead of the agent: executes what it is sent and answers what that printed. It has one of everything whose
 * image carries more than records: bytes in a pipe, queued datagrams, TCP data under way, a deleted file, semaphores; a
 * child without the guard and one with it.
 */
const PROBE = `
import ctypes, io, os, socket, subprocess, sys, threading, time
from contextlib import redirect_stdout
import numpy as np

data = np.arange(24_000_000, dtype=np.float64)
zeros = np.zeros(8_000_000)
zeros[::512] = 0.0
x = [1, 2, 3]
threads = [threading.Thread(target=time.sleep, args=(100_000,), daemon=True) for _ in range(3)]
for thread in threads: thread.start()
pipe_read, pipe_write = os.pipe()
os.write(pipe_write, b"in the pipe")
one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
one.send(b"queued"); one.send(b"twice")
server = socket.create_server(("127.0.0.1", 7000))
client = socket.create_connection(("127.0.0.1", 7000))
served, _ = server.accept()
served.send(b"under way")
ghost = open("/tmp/ghost", "w+"); ghost.write("deleted " * 1000); ghost.flush(); os.unlink("/tmp/ghost")
sparse = open("/tmp/sparse", "wb+"); sparse.truncate(1 << 20); sparse.seek(1 << 19); sparse.write(b"middle"); sparse.flush(); os.unlink("/tmp/sparse")
libc = ctypes.CDLL(None)
semaphores = libc.semget(0, 3, 0o1600)
guarded = subprocess.Popen([sys.executable, "-c", "import time; b = bytearray(b'g' * 4_000_000); time.sleep(100_000)"])
bare = subprocess.Popen([sys.executable, "-c", "import time; b = bytearray(b'b' * 4_000_000); time.sleep(100_000)"], env={})
time.sleep(0.5)

listener = socket.socket(socket.AF_UNIX)
listener.bind("/.dormouse/run/probe.sock")
listener.listen()
os.write(3, b"1"); os.close(3)
while True:
    connection, _ = listener.accept()
    with connection, connection.makefile("rb") as lines:
        printed = io.StringIO()
        try:
            with redirect_stdout(printed): exec(lines.read().decode(), globals())
        except BaseException as error: printed.write(repr(error))
        connection.sendall(printed.getvalue().encode())
    del connection, lines
`

const criu = (await findCriu(testDataDir))!
const template = await getTemplate(testDataDir, 'python')
const root = mkdtempSync(join(tmpdir(), 'dormouse-image-'))
const tools = join(root, 'tools')
const memoryDir = join(root, 'memory')
const layers = [template.rootfs]
const burrows: FirstProcess[] = []
let current: { first: FirstProcess; link: string; name: string }
let generation = 0

beforeAll(async () => {
  for (const path of [tools, memoryDir, join(root, 'mount'), join(tools, 'lib'), join(tools, 'run')]) {
    await mkdir(path, { mode: 0o755 })
  }
  await mkdir(join(tools, 'memory'))
  copyFileSync(guardLibrary, join(tools, 'lib', 'libdormouse-guard.so'))
  writeFileSync(join(tools, 'probe.py'), PROBE)
  await startBurrow({ monotonicNs: 5_000_000_000_000n, boottimeNs: 6_000_000_000_000n }, [
    '/usr/bin/python3',
    '/.dormouse/probe.py',
  ])
})

afterAll(async () => {
  for (const first of burrows) {
    await killFirstProcess(first)
    await waitForEnd(first, 10_000)
  }
  rmSync(root, { recursive: true, force: true })
})

async function startBurrow(clocks: Clocks, agent: string[]) {
  const name = join(root, `burrow-${generation++}`)
  const { uidBase } = template.manifest
  const [upper, work, link] = ['upper', 'work', 'link'].map((part) => join(name, part)) as [
    string,
    string,
    string,
  ]
  for (const path of [upper, work, link]) {
    await mkdir(path, { recursive: true, mode: 0o755 })
    await chown(path, uidBase, uidBase)
  }
  await launchInit({
    cwd: name,
    config: {
      hostname: 'image-test',
      root: join(root, 'mount'),
      overlay: `lowerdir=${layers.join(':')},upperdir=${upper},workdir=${work}`,
      tools,
      link,
      memory: memoryDir,
      pid_file: join(name, 'pid'),
      end_file: join(name, 'end'),
      monotonic_ns: String(clocks.monotonicNs),
      boottime_ns: String(clocks.boottimeNs),
      // In an empty burrow CRIU's own processes must not take the pids of the tree.
      last_pid: agent.length > 0 ? 0 : 30_000,
      agent,
      env: ['PATH=/usr/bin', 'LD_PRELOAD=/.dormouse/lib/libdormouse-guard.so'],
    },
  })
  const first = (await findFirstProcess(join(name, 'pid')))!
  burrows.push(first)
  current = { first, link, name }
}

async function ask(code: string): Promise<string> {
  const socket = connect(join(current.link, 'probe.sock'))
  socket.end(code)
  return (await text(socket)).trim()
}

/** Dumps the tree of the current burrow, which ends with it. */
async function dump(directory: string): Promise<string> {
  const imagesDir = join(root, directory)
  await mkdir(imagesDir)
  const { exitCode, output } = await runCriu({
    criu,
    firstPid: current.first.pid,
    as: 'host',
    imagesDir,
    kdatDir: '/dev/.masked',
    action: [
      'dump',
      ...['--tree', '2', '--leave-stopped', '--network-lock', 'skip'],
      ...['--tcp-established', '--manage-cgroups=ignore'],
    ],
  })
  expect(exitCode, output).toBe(0)
  // CRIU runs inside: had it ended the tree itself, PID 1 and with it CRIU would have gone too.
  await killFirstProcess(current.first)
  await waitForEnd(current.first, 10_000)
  layers.unshift(join(current.name, 'upper'))
  return imagesDir
}

async function restore(imagesDir: string): Promise<void> {
  // CRIU has no privileges over the host here.
  for (const name of readdirSync(imagesDir)) chmodSync(join(imagesDir, name), 0o644)
  for (const name of readdirSync(memoryDir)) await chown(join(memoryDir, name), UID_BASE, UID_BASE)
  await startBurrow(await readClocks(imagesDir), [])
  const { exitCode, output } = await runCriu({
    criu,
    firstPid: current.first.pid,
    as: 'burrow',
    imagesDir,
    kdatDir: '/dev/.masked',
    action: ['restore', '--restore-detached', '--tcp-established', '--manage-cgroups=ignore'],
  })
  expect(exitCode, output).toBe(0)
}

async function map(rawDir: string, memoryId: string): Promise<MappedImage & { outDir: string }> {
  const outDir = `${rawDir}-mapped`
  await mkdir(outDir)
  await using worker = new PageWorker()
  const guard = { hostPath: guardLibrary }
  return {
    outDir,
    ...(await mapMemory({ rawDir, outDir, memoryDir, basesDir: memoryDir, memoryId, guard, worker })),
  }
}

/** Memory of the probe that is not the page cache's, and so is there once for every restore. */
async function anonymousBytes(): Promise<number> {
  const rollup = await ask('print(open("/proc/self/smaps_rollup").read())')
  return Number(/^Anonymous: +(\d+) kB$/m.exec(rollup)?.[1]) * 1024
}

const CHECKS = 'print(id(x), x, data.sum(), zeros.sum(), len(threads), os.getpid())'
const SURVIVORS =
  'ghost.seek(0); sparse.seek(1 << 19); print(os.read(pipe_read, 99), other.recv(99), other.recv(99), client.recv(99), len(ghost.read()), sparse.read(6), guarded.poll(), bare.poll())'

/**
 * After the fork both share pages of the memory file, pages changed before it and a new array, and each changes some of
 * them.
 */
const CHANGE = `
data[:1_000_000] += 1
more = np.ones(2_000_000)
y = id(more)
ask_read, ask_write = os.pipe()
answer_read, answer_write = os.pipe()
def in_child():
    os.write(ask_write, b"?")
    return os.read(answer_read, 999)
if os.fork() == 0:
    lines.close(); connection.close(); listener.close()
    data[2_000_000:3_000_000] *= 2
    more[:1_000_000] += 5
    while os.read(ask_read, 1):
        os.write(answer_write, repr((id(x), data.sum(), more.sum(), data[:10].sum())).encode())
data[4_000_000:5_000_000] *= 3
more[1_000_000:] += 7
`
const LATER_CHECKS = `${CHECKS}; print(y, more.sum(), in_child(), in_child())`

describe('a real dump', () => {
  let before: string
  let raw: string
  let first: MappedImage & { outDir: string }
  beforeAll(async () => {
    before = await ask(CHECKS)
    raw = await dump('first')
  })

  it('is byte-identical after decoding and encoding, in every file', () => {
    const kinds = new Set<string>()
    for (const name of readdirSync(raw)) {
      const bytes = readFileSync(join(raw, name))
      const image = parseImage(bytes)
      if (image === undefined) continue
      kinds.add(name.replace(/(-[0-9a-f]+)?(\.img)?$/, ''))
      expect(Buffer.compare(Buffer.from(serializeImage(image)), bytes), name).toBe(0)
    }
    expect([...kinds]).toEqual(
      expect.arrayContaining([
        'inventory',
        'ghost-file',
        'pipes-data',
        'sk-queues',
        'tcp-stream',
        'stats-dump',
      ]),
    )
  })

  it('has the clocks that the tree saw', async () => {
    const { monotonicNs, boottimeNs } = await readClocks(raw)
    expect(Number(monotonicNs) / 1e9).toBeGreaterThan(5000)
    expect(Number(boottimeNs) / 1e9).toBeGreaterThan(6000)
    expect(Number(boottimeNs) / 1e9).toBeLessThan(6600)
  })

  it('keeps little to copy once mapped, and leaves the task without the guard alone', async () => {
    first = await map(raw, 'gen1')
    expect(first.tasks).toHaveLength(3)
    const mapped = first.tasks.filter(({ vmas }) => vmas > 0)
    expect(mapped).toHaveLength(2)
    expect(mapped[0]?.pid).toBe(2)
    expect(mapped[0]?.mappedBytes).toBeGreaterThan(24_000_000 * 8)
    expect(mapped[0]?.copiedBytes).toBeLessThan(8_000_000)
    expect(first.referencedMemoryFiles).toEqual([])
    expect(first.memoryFiles.map(({ name }) => name)).toEqual(mapped.map(({ pid }) => `gen1-${pid}`))
    const allocatedBytes = (name: string) => statSync(join(memoryDir, name)).blocks * 512
    for (const { name, sizeBytes } of first.memoryFiles) {
      expect(statSync(join(memoryDir, name)).mode & 0o777).toBe(0o400)
      expect(sizeBytes - allocatedBytes(name)).toBeGreaterThan(8 * 1024 ** 3)
    }
    // The pages of `zeros` are present, hold nothing, and take no space.
    expect(allocatedBytes(first.memoryFiles[0]!.name)).toBeLessThan(mapped[0]!.mappedBytes - 60_000_000)
    expect(readdirSync(first.outDir).some((name) => name.startsWith('userns-'))).toBe(false)
  })

  it('leaves no memory file behind when the disk is full', async () => {
    const outDir = join(root, 'full-mapped')
    const small = join(root, 'full-memory')
    await mkdir(outDir)
    await mkdir(small)
    await runCommandOrFail(
      { argv: ['mount', '-t', 'tmpfs', '-o', 'size=1m', 'dormouse-test', small] },
      'mounting',
    )
    try {
      await using worker = new PageWorker()
      const mapping = mapMemory({
        worker,
        rawDir: raw,
        outDir,
        memoryDir: small,
        basesDir: memoryDir,
        memoryId: 'full',
        guard: { hostPath: guardLibrary },
      })
      await expect(mapping).rejects.toMatchObject({ code: 'no_space' })
      expect(readdirSync(small)).toEqual([])
    } finally {
      await runCommandOrFail({ argv: ['umount', small] }, 'unmounting')
    }
  })

  it('restores with the same ids and content and little private memory', async () => {
    await restore(first.outDir)
    expect(await ask(CHECKS)).toBe(before)
    expect(await anonymousBytes()).toBeLessThan(10_000_000)
    expect(await ask(SURVIVORS)).toBe(
      "b'in the pipe' b'queued' b'twice' b'under way' 8000 b'middle' None None",
    )
  })

  it('holds only what changed when taken again, and restores from both generations', async () => {
    before = await ask(CHANGE + LATER_CHECKS)
    const second = await map(await dump('second'), 'gen2')
    expect(second.referencedMemoryFiles).toEqual(first.memoryFiles.map(({ name }) => name))
    const [probe] = second.tasks
    expect(second.tasks).toHaveLength(4)
    expect(probe!.copiedBytes + probe!.mappedBytes).toBeGreaterThan(32_000_000)
    expect(probe!.copiedBytes + probe!.mappedBytes).toBeLessThan(45_000_000)
    expect(probe!.mappedBytes).toBeGreaterThan(15_000_000)
    await restore(second.outDir)
    expect(await ask(LATER_CHECKS)).toBe(before)
  })

  it('tells the guard every range that maps a memory file', async () => {
    const ranges = await ask(`
import re
class Table(ctypes.Structure):
    _fields_ = [("magic", ctypes.c_char * 8), ("version", ctypes.c_uint32), ("capacity", ctypes.c_uint32), ("count", ctypes.c_uint32),
                ("reserved", ctypes.c_uint32), ("ranges", ctypes.c_uint64 * 2044)]
table = Table.in_dll(ctypes.CDLL("/.dormouse/lib/libdormouse-guard.so"), "dormouse_guard_table")
told = [tuple(table.ranges[2 * i:2 * i + 2]) for i in range(table.count)]
mapped = [tuple(int(part, 16) for part in re.match("([0-9a-f]+)-([0-9a-f]+)", line).groups())
          for line in open("/proc/self/maps") if "/.dormouse/memory/" in line]
print(len(told) > 0, told == sorted(told), all(any(a <= c and d <= b for a, b in told) for c, d in mapped))
`)
    expect(ranges).toBe('True True True')
  })

  it('needs no raw dump to be kept: nothing of it is changed by mapping', async () => {
    const { pagesName, runs } = await readTask(raw, 2)
    const last = runs.at(-1)!
    expect(BigInt(statSync(join(raw, pagesName)).size)).toBe(last.offset + last.end - last.start)
    expect((await readImage(join(raw, 'inventory.img'))).records).toHaveLength(1)
  })
})
