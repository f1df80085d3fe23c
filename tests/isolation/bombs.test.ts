import type { Burrow } from '@dormouse/engine'
import { afterEach, describe, expect, test } from 'vitest'
import { heldBytes } from '../held-memory.ts'
import { TEST_ISOLATION } from '../test-isolation.ts'
import { useAttackers } from './attackers.ts'
import { mostBytes } from './isolated-factory.ts'

const MIB = 1024 ** 2
/** An emulated kernel looks for memory to take back before it ends a program: for minutes on a busy host. */
const OUT_OF_MEMORY_MS = TEST_ISOLATION === 'microvm' ? 300_000 : 120_000
const neighbour = await useAttackers()

let bombed: Burrow | undefined
afterEach(async () => {
  await bombed?.destroy()
  bombed = undefined
})

async function ignite(code: string, who: 'root' | 'user'): Promise<Burrow> {
  bombed = await neighbour.create({ user: 'root', limits: { memoryBytes: 512 * MIB } })
  await bombed.guest.processes.start({ args: ['python3', '-c', code], user: who })
  return bombed
}

/** Until the bomb has done its worst, and some rounds more. */
async function expectAnswers(hasGoneOff: () => Promise<boolean>): Promise<void> {
  let rounds = 0
  for (let after = 0; after < 8; rounds += 1) {
    expect(await neighbour.attempt('root', `${rounds} + 1`)).toBe(rounds + 1)
    const { exitCode } = await neighbour.guest.runs.run({ code: 'true', language: 'bash', context: 'root' })
    expect(exitCode).toBe(0)
    if (after > 0 || (await hasGoneOff())) after += 1
  }
}

async function expectNoTraces(): Promise<void> {
  const id = bombed?.id ?? ''
  await bombed?.destroy()
  expect((await neighbour.factory.traces()).filter((trace) => trace.includes(id))).toEqual([])
  expect(await neighbour.attempt('root', '"alive"')).toBe('alive')
}

describe('bombs stay inside: the neighbour answers, and the burrow can be destroyed without traces', () => {
  test.each(['root', 'user'] as const)('forks without end by %s', async (who) => {
    const burrow = await ignite('import os\nwhile True:\n  try: os.fork()\n  except OSError: pass', who)
    await expectAnswers(async () => (await burrow.usage()).pids >= burrow.limits.pids - 1)
    expect((await burrow.usage()).pids).toBeLessThanOrEqual(burrow.limits.pids)
    await expectNoTraces()
  })

  test.each([
    ['pages', 'bombs = []\nwhile True: bombs.append(bytearray(b"x" * 2**22))'],
    ['a memory file', 'import os\nfd = os.memfd_create("x")\nwhile True: os.write(fd, b"x" * 2**20)'],
    [
      'shared memory segments',
      `import ctypes
libc = ctypes.CDLL(None); libc.shmat.restype = ctypes.c_void_p
while True: ctypes.memset(libc.shmat(libc.shmget(0, 2**24, 0o1600), None, 0), 1, 2**24)`,
    ],
    [
      'messages without a reader',
      `import socket
kept = []
while True:
    a, b = socket.socketpair(); a.setblocking(False); kept.append((a, b))
    try:
        while True: a.send(b"x" * 65536)
    except BlockingIOError: pass`,
    ],
  ])(
    'memory: %s',
    async (_title, code) => {
      const burrow = await ignite(`import os\nwhile os.fork():\n  os.wait()\n${code}`, 'root')
      await expectAnswers(async () => (await burrow.usage()).oomKills > 0)
      const { memoryBytes } = await burrow.usage()
      expect(memoryBytes).toBeLessThanOrEqual(mostBytes(burrow.limits))
      await expectNoTraces()
    },
    OUT_OF_MEMORY_MS,
  )

  /** Each takes until it is refused, then says so and holds on to everything. */
  test.each([
    ['files', 'os.open("/", os.O_RDONLY)'],
    ['pipes', 'os.pipe()'],
    ['epoll watches', 'watch()'],
    ['inotify instances', 'inotify()'],
    ['timers and events', '(os.eventfd(0), os.timerfd_create(1) if hasattr(os, "timerfd_create") else 0)'],
    ['sockets', 'socket.socket()'],
    ['terminals', 'os.openpty()'],
  ])('descriptors: %s', async (_title, take) => {
    const code = `
import ctypes, errno, os, select, socket, sys, time
libc, kept, watched, full = ctypes.CDLL(None, use_errno=True), [], select.epoll(), open("/tmp/full", "a", 1)
def inotify():
    if libc.inotify_init() < 0: raise OSError(ctypes.get_errno(), "inotify")
def watch():
    fd = os.eventfd(0); watched.register(fd); kept.append(fd)
for child in range(2):
    if os.fork() == 0: break
try:
    while True: kept.append(${take})
except OSError as error:
    full.write(errno.errorcode[error.errno] + "\\n")
time.sleep(1000)
`
    const burrow = await ignite(code, 'root')
    await expectAnswers(async () => (await readFull(burrow)).length > 0)
    const works =
      'tries(lambda: (os.pipe(), os.open("/", 0), socket.socket().close(), os.openpty()) and "works")'
    expect(await neighbour.attempt('root', works)).toBe('works')
    await expectNoTraces()
  })

  test('output without end: the host keeps a bounded part of it', async () => {
    bombed = await neighbour.create({ user: 'root' })
    const run = bombed.guest.runs.run({ code: 'for _ in range(100): print("x" * 2**20)' })
    const before = heldBytes()
    let isOver = false
    const end = () => {
      isOver = true
    }
    run.then(end, end)
    await expectAnswers(async () => isOver)
    const { stdout, truncated, exitCode } = await run
    expect(exitCode).toBe(0)
    expect(stdout.length).toBeLessThan(20 * MIB)
    expect(truncated?.stdoutBytes).toBeGreaterThan(75 * MIB)
    expect(heldBytes() - before).toBeLessThan(50 * MIB)
    await expectNoTraces()
  })

  test('directories 10,000 deep', async () => {
    bombed = await neighbour.create({ user: 'root' })
    const code = 'import os\nfor _ in range(10000): os.mkdir("d"); os.chdir("d")\nprint("deep")'
    expect((await bombed.guest.runs.run({ code })).stdout).toBe('deep\n')
    await expectNoTraces()
  })

  test('names and modes made to resist removal', async () => {
    bombed = await neighbour.create({ user: 'root' })
    const code = `
import os
os.makedirs(b"/x/-rf/\\xff\\n/--no-preserve-root"); os.symlink("/etc", "/x/etc"); os.mkfifo("/x/fifo")
for name in (b"/x/-rf/\\xff\\n", b"/x/-rf", b"/x"): os.chmod(name, 0)
print("made")`
    expect((await bombed.guest.runs.run({ code })).stdout).toBe('made\n')
    await expectNoTraces()
  })
})

async function readFull(burrow: Burrow): Promise<string> {
  let text = ''
  try {
    for await (const chunk of burrow.guest.files.read('/tmp/full', { user: 'root' })) text += String(chunk)
  } catch {
    return ''
  }
  return text
}
