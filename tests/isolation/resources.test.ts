import { spawnSync } from 'node:child_process'
import { access, constants, readFile, writeFile } from 'node:fs/promises'
import { totalmem } from 'node:os'
import { describe, expect, test } from 'vitest'
import { EVERYONE, useAttackers } from './attackers.ts'

const attackers = await useAttackers()

describe.each(EVERYONE)('%s cannot take more than its share:', (who) => {
  test.each([
    [
      'real-time scheduling',
      'tries(lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1)))',
      'EPERM',
    ],
    ['a higher priority', 'tries(lambda: os.setpriority(os.PRIO_PROCESS, 0, -5))', 'EACCES'],
    ['real-time disk access', 'call("ioprio_set", 1, 0, 1 << 13)', 'EPERM'],
    ['more open files', 'limits(resource.RLIMIT_NOFILE, 1 << 20)', 'EPERM'],
    ['locked memory without end', 'limits(resource.RLIMIT_MEMLOCK, 1 << 40)', 'EPERM'],
    ['the host’s asynchronous I/O slots', 'call("io_setup", 1, bytes(8))', 'ENOSYS'],
    ['the host’s huge pages', 'tries(lambda: mmap.mmap(-1, 2 << 20, flags=0x40022) and "mapped")', 'EPERM'],
    ['the host’s huge pages by memfd', 'call("memfd_create", b"x", 4)', 'EPERM'],
    ['the host’s huge pages by shmget', 'call("shmget", 0, 2 << 20, 0o4000 | 0o1600)', 'EPERM'],
    ['files that the host cannot remove', 'immutable("/tmp/immutable-%d" % os.getuid())', 'EPERM'],
  ])('%s', async (_title, expression, answer) => {
    await attackers.python(who, `import mmap\n${IMMUTABLE}`)
    expect(await attackers.attempt(who, expression)).toBe(answer)
  })

  test('core dumps: a handler of the host is never started', async () => {
    // 1 is the kernel's word for "also not into a pipe"; 0 would still start the handler.
    const core = 'resource.getrlimit(resource.RLIMIT_CORE)'
    expect(await attackers.attempt(who, core)).toEqual([1, 1])
    await attackers.attempt(who, '[limits(resource.RLIMIT_CORE, n) for n in (0, 1, 1 << 30)]')
    const other = 'in_child(lambda: resource.prlimit(os.getppid(), resource.RLIMIT_CORE, (0, 0)))'
    await attackers.attempt(who, other)
    expect(await attackers.attempt(who, core)).toEqual([1, 1])
  })
})

const IMMUTABLE = `
def immutable(path):
    with open(path, "w") as file:
        return tries(lambda: fcntl.ioctl(file, 0x40086602, struct.pack("l", 0x10)))
`

test('a protected server does not protect its sandboxes when the host runs out of memory', async () => {
  const own = '/proc/self/oom_score_adj'
  const before = await readFile(own, 'utf8')
  try {
    // Root of a container may lack the right to; what then remains to be seen is that it cannot be lowered inside.
    await writeFile(own, '-500').catch(() => {})
    const burrow = await attackers.create({ user: 'root' })
    const code = `
scores = [int(open(f"/proc/{pid}/oom_score_adj").read()) for pid in (1, 2, "self")]
try:
    open("/proc/self/oom_score_adj", "wb", buffering=0).write(b"-1")
except PermissionError:
    print(min(scores))
`
    expect(await burrow.guest.runs.run({ code })).toMatchObject({ stdout: '0\n' })
    await burrow.destroy()
  } finally {
    await writeFile(own, before)
  }
})

describe.each(EVERYONE)('terminals: %s', (who) => {
  test.each([
    ['put keystrokes into one', 'fcntl.ioctl(SLAVE, 0x5412, b"x")'],
    ['put text into the console', 'fcntl.ioctl(SLAVE, 0x541c, b"\\x02")'],
    ['take the console', 'fcntl.ioctl(SLAVE, 0x541d)'],
    ['load a line discipline', 'fcntl.ioctl(SLAVE, 0x5423, struct.pack("i", 21))'],
  ])('cannot %s', async (_title, action) => {
    await attackers.python(who, 'MASTER, SLAVE = os.openpty()')
    expect(await attackers.attempt(who, `tries(lambda: ${action})`)).toBe('EPERM')
  })
})

describe('what the kernel counts per user is not taken from the neighbour or the host', () => {
  const countInotify =
    'import ctypes; libc = ctypes.CDLL(None); print(sum(libc.inotify_init() >= 0 for _ in range(16)))'

  test('inotify instances', async () => {
    const greedy = `
import ctypes, os, sys, time
libc = ctypes.CDLL(None)
for uid in range(2000, 2008):
    if os.fork() == 0:
        os.setuid(uid)
        while libc.inotify_init() >= 0: pass
        os.write(1, b"full\\n")
        time.sleep(1000)
`
    const bomber = await attackers.create({ user: 'root' })
    const processId = await bomber.guest.processes.start({ args: ['python3', '-c', greedy], user: 'root' })
    let full = 0
    for await (const event of bomber.guest.processes.events(processId)) {
      if (event.type === 'stdout') full += event.data.split('full').length - 1
      if (full === 8) break
    }
    expect((await attackers.python('root', countInotify)).trim()).toBe('16')
    const watch = spawnSync(process.execPath, ['-e', 'fs.watch("/"); process.exit(0)'], { encoding: 'utf8' })
    expect(watch).toMatchObject({ status: 0, stderr: '' })
    await bomber.destroy()
  })

  /**
   * Less than either costs. The sandbox pays in memory, so its own limit comes first if the ceiling is higher than
   * that.
   */
  const LEAST_BYTES = 128

  test.each(['/proc/sys/fs/file-max', '/proc/sys/fs/epoll/max_user_watches'])('%s', async (path) => {
    const isOurs = await access(path, constants.W_OK).then(
      () => true,
      () => false,
    )
    const most = Number(await readFile(path, 'utf8'))
    if (isOurs) expect(most * LEAST_BYTES).toBeGreaterThan(totalmem())
  })

  test('pseudo terminals', async () => {
    const all =
      'import os, json; n = 0\ntry:\n  while True: os.openpty(); n += 1\nexcept OSError as e: print(n, e.errno)'
    const bomber = await attackers.create({ user: 'root' })
    const { stdout } = await bomber.guest.runs.run({ code: all })
    const most = Number(await readFile('/proc/sys/kernel/pty/max', 'utf8'))
    expect(Number(stdout.split(' ')[0])).toBeLessThan(most / 16)
    expect(await attackers.attempt('root', 'tries(lambda: len(os.openpty()))')).toBe(2)
    await bomber.destroy()
  })
})
