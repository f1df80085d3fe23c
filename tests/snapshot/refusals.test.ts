import { closeSync } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { createServer } from 'node:net'
import { availableParallelism } from 'node:os'
import { newSandboxId } from '@dormouse/contracts'
import type { Burrow, Engine } from '@dormouse/engine'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { linuxFactory } from '../engine-linux/linux-factory.ts'

const factory = await linuxFactory()
let engine: Engine
let burrow: Burrow
beforeAll(async () => {
  engine = await factory.open()
  burrow = await engine.createBurrow({ sandboxId: newSandboxId(), template: 'python' })
})
afterAll(async () => {
  await engine?.[Symbol.asyncDispose]()
  await factory.cleanUp()
})

async function print(code: string): Promise<string> {
  const run = await burrow.guest.runs.run({ code })
  expect(run).toMatchObject({ exitCode: 0, stderr: '' })
  return run.stdout.trim()
}

/** The sandbox is the same burrow as before, with its variables, and nothing of the attempt is left on disk. */
async function expectUntouched(attempt: () => Promise<unknown>, refusal: object): Promise<void> {
  await print('import secrets; kept = [secrets.token_hex()]; address = id(kept)')
  const kept = await print('print(kept)')
  const before = await leftovers()
  await expect(attempt()).rejects.toMatchObject(refusal)
  expect(await leftovers()).toEqual(before)
  expect(await print('print(kept if id(kept) == address else None)')).toBe(kept)
}

async function leftovers(): Promise<unknown> {
  const { snapshotsDir, layersDir } = factory.layout
  return [
    await readdir(snapshotsDir),
    await readdir(layersDir),
    await readdir(factory.layout.burrow(burrow.id).dir),
    await factory.traces(),
  ]
}

describe('what cannot be saved is refused, and the sandbox continues', () => {
  test.each([
    {
      what: 'a process that is traced',
      begin: `
import ctypes, os, signal
libc = ctypes.CDLL(None)
culprit = os.fork()
if culprit == 0:
    libc.ptrace(0, 0, None, None)  # PTRACE_TRACEME
    os.kill(os.getpid(), signal.SIGSTOP)
    os._exit(0)
os.waitpid(culprit, 0)`,
      reason: /traced/,
      end: 'os.kill(culprit, 9); print(os.waitpid(culprit, 0)[0] == culprit)',
    },
    {
      what: 'an eventfd that counts as a semaphore',
      begin: 'import os; culprit = os.getpid(); fd = os.eventfd(1, os.EFD_SEMAPHORE)',
      reason: /eventfd/,
      end: 'os.close(fd); print(True)',
    },
    {
      what: 'an orphan of another session that a subreaper has taken in',
      begin: `
import ctypes, os, signal, time
reader, writer = os.pipe()
reaper = os.fork()
if reaper == 0:
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
    leader = os.fork()
    if leader == 0:
        os.setsid()
        if os.fork() == 0:
            while os.getppid() == os.getsid(0): time.sleep(0.01)
            os.write(writer, str(os.getpid()).encode())
            time.sleep(1000)
        os._exit(0)
    os.waitpid(leader, 0)
    time.sleep(1000)
culprit = int(os.read(reader, 10))`,
      reason: /orphan/,
      end: 'os.kill(culprit, 9); os.kill(reaper, 9); os.waitpid(reaper, 0); os.close(reader); os.close(writer); print(True)',
    },
    {
      what: 'a deleted file that is too large',
      begin:
        'import os; culprit = os.getpid(); f = open("/root/f", "w"); os.posix_fallocate(f.fileno(), 0, (1 << 30) + 1); os.unlink("/root/f")',
      reason: /deleted file/,
      end: 'f.close(); print(True)',
    },
  ])('$what', async ({ begin, reason, end }) => {
    await print(begin)
    const pid = Number(await print('print(culprit)'))
    await expectUntouched(() => engine.snapshot(burrow, { leave: 'gone' }), {
      code: 'snapshot_refused',
      message: expect.stringMatching(reason),
      details: { pid, reason: expect.stringMatching(reason) },
    })
    expect(await print(end)).toBe('True')
    const { burrow: next } = await engine.snapshot(burrow, { leave: 'running' })
    burrow = next!
    expect(await print('print(kept is not None)')).toBe('True')
  })

  test('a fork of something that cannot be saved leaves the parent and no child', async () => {
    await print('import os; fd = os.eventfd(1, os.EFD_SEMAPHORE)')
    const fork = () => engine.fork(burrow, { sandboxIds: [newSandboxId(), newSandboxId()] })
    await expectUntouched(fork, { code: 'snapshot_refused' })
    await print('os.close(fd)')
  })

  test('a file that is open, deleted and has another name gets no name of CRIU', async () => {
    await print(`
import os
fd = os.eventfd(1, os.EFD_SEMAPHORE)
os.makedirs("/root/names", exist_ok=True)
f = open("/root/names/one", "w+"); f.write("content"); f.flush()
os.link("/root/names/one", "/root/names/two"); os.unlink("/root/names/one")`)
    await expectUntouched(() => engine.snapshot(burrow, { leave: 'gone' }), { code: 'snapshot_refused' })
    expect(await print('f.seek(0); print(os.listdir("/root/names"), f.read())')).toBe("['two'] content")
    await print('os.close(fd)')
    const { burrow: next } = await engine.snapshot(burrow, { leave: 'running' })
    burrow = next!
    expect(await print('f.seek(0); print(os.listdir("/root/names"), f.read())')).toBe("['two'] content")
    await print('f.close()')
  })

  test('a process that was stopped before stays stopped, and the others continue', async () => {
    await print(`
import os, signal, subprocess
fd = os.eventfd(1, os.EFD_SEMAPHORE)
stopped, running = [subprocess.Popen(["sleep", "1000"]) for _ in range(2)]
stopped.send_signal(signal.SIGSTOP)
os.waitpid(stopped.pid, os.WUNTRACED)
state = lambda pid: open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[0]`)
    await expectUntouched(() => engine.snapshot(burrow, { leave: 'gone' }), { code: 'snapshot_refused' })
    expect(await print('print(state(stopped.pid), state(running.pid))')).toBe('T S')
    await print('os.close(fd); stopped.kill(); running.kill(); stopped.wait(); running.wait()')
  })
})

describe('a snapshot that is refused', () => {
  const HINDRANCE = 'import os; fd = os.eventfd(1, os.EFD_SEMAPHORE)'
  const refused = () =>
    expect(engine.snapshot(burrow, { leave: 'gone' })).rejects.toMatchObject({ code: 'snapshot_refused' })

  test('does not look to a shell as if its job had been stopped', async () => {
    await print(HINDRANCE)
    await print(`
import os, pty, select, time
pid, shell = pty.fork()
if pid == 0: os.execve("/bin/bash", ["bash", "--norc", "-i"], {"PS1": "$ ", "TERM": "dumb"})
def read_until(end, seconds=5):
    seen = b""
    while select.select([shell], [], [], seconds)[0]:
        seen += os.read(shell, 4096)
        if end in seen: break
    return seen.decode()
read_until(b"$ ")
os.write(shell, b"sleep 1000; echo slept $?\\n"); read_until(b"\\n")
time.sleep(0.3)`)
    for (let round = 0; round < 5; round++) await refused()
    expect(await print('print(repr(read_until(b"nothing", 0.5)))')).toBe("''")
    // Still in the foreground: it gets what is typed.
    await print('os.write(shell, b"\\x03")')
    expect(await print('print(repr(read_until(b"$ ")))')).toMatch(/\^C/)
    await print('os.kill(pid, 9); os.waitpid(pid, 0); os.close(shell); os.close(fd)')
  })

  test('is noticed only by processes that handle SIGCONT', async () => {
    await print(HINDRANCE)
    await print(`
import signal, subprocess
got = []
for number in (signal.SIGCONT, signal.SIGCHLD): signal.signal(number, lambda number, frame: got.append(signal.Signals(number).name))
child = subprocess.Popen(["sleep", "1000"])`)
    await refused()
    expect(await print('print(sorted(set(got)), child.poll())')).toBe("['SIGCONT'] None")
    await print(
      'for number in (signal.SIGCONT, signal.SIGCHLD): signal.signal(number, signal.SIG_DFL)\nchild.kill(); child.wait(); os.close(fd)',
    )
  })
})

describe('connections', () => {
  test('inside continue after a snapshot that was refused', async () => {
    await print(`
import os, socket
server = socket.create_server(("127.0.0.1", 0))
near = socket.create_connection(server.getsockname()); far, _ = server.accept(); near.sendall(b"one ")
fd = os.eventfd(1, os.EFD_SEMAPHORE)`)
    await expectUntouched(() => engine.snapshot(burrow, { leave: 'gone' }), { code: 'snapshot_refused' })
    const code =
      'near.sendall(b"two"); far.settimeout(5); print(far.recv(3), far.recv(9), near.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR), server.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR))'
    expect(await print(code)).toBe("b'one' b' two' 0 1")
    await print('os.close(fd); near.close(); far.close(); server.close()')
  })

  test('to the outside do not keep a sandbox from being saved, and are ended when it wakes', async () => {
    const gate = await burrow.openGate()
    const server = createServer((socket) => void socket.on('error', () => {}).write('hello'))
    server.listen({ fd: gate.tcp })
    // Only what has arrived is saved.
    await print(
      'import socket; s = socket.create_connection(("192.0.2.1", 80)); s.settimeout(5); s.recv(5, socket.MSG_PEEK)',
    )
    const { burrow: next } = await engine.snapshot(burrow, { leave: 'running' })
    burrow = next!
    gate.close()
    closeSync(gate.dns)
    server.close()
    const code = `
print(s.recv(5))
try: print(s.recv(9))
except ConnectionError as error: print("ConnectionError")`
    expect(await print(code)).toBe("b'hello'\nConnectionError")
  })
})

describe('what could not be saved cannot be made', () => {
  const fails = (name: string, call: string) =>
    print(
      `import ctypes, errno; libc = ctypes.CDLL(None, use_errno=True); result = libc.syscall(${call}); print(result, errno.errorcode[ctypes.get_errno()]) # ${name}`,
    )

  test('an io_uring', async () => {
    expect(await fails('io_uring_setup', '425, 8, ctypes.create_string_buffer(120)')).toBe('-1 ENOSYS')
  })

  test.each([
    ['user', 0x10000000],
    ['mount', 0x00020000],
    ['pid', 0x20000000],
    ['network', 0x40000000],
  ])('a %s namespace', async (_kind, flag) => {
    expect(await fails('unshare', `272, ${flag}`)).toBe('-1 EPERM')
    expect(await fails('clone', `56, ${flag} | 17, 0, 0, 0, 0`)).toBe('-1 EPERM')
    expect(await fails('clone3', '435, ctypes.create_string_buffer(88), 88')).toBe('-1 ENOSYS')
  })
})

test('more snapshots that fail at once than there are image threads are all refused', async () => {
  const create = async () => {
    const made = await engine.createBurrow({ sandboxId: newSandboxId(), template: 'python' })
    await made.guest.runs.run({ code: 'import os; fd = os.eventfd(1, os.EFD_SEMAPHORE)' })
    return made
  }
  const count = Math.max(2, availableParallelism()) + 1
  const burrows = await Promise.all(Array.from({ length: count }, create))
  const save = (one: Burrow) =>
    engine.snapshot(one, { leave: 'gone' }).catch((error: { code: string }) => error.code)
  expect(await Promise.all(burrows.map(save))).toEqual(burrows.map(() => 'snapshot_refused'))
  for (const one of burrows) {
    expect((await one.guest.runs.run({ code: 'print(fd > 0)' })).stdout).toBe('True\n')
    await one.destroy()
  }
})
