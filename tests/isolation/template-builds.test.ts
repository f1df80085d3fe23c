import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { createServer, type Server } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { buildTemplate } from '../server/build-template.ts'
import { ServerProcess } from '../server/server-process.ts'

let server: ServerProcess
let strict: ServerProcess
let onHost: string
let listener: Server
let heard = 0
let key: string
beforeAll(async () => {
  onHost = mkdtempSync(join(tmpdir(), 'dormouse-host-'))
  listener = createServer((socket) => {
    heard += 1
    socket.destroy()
  })
  await new Promise<void>((resolve) => listener.listen(0, '0.0.0.0', resolve))
  const limits = { memoryBytes: 256 * 1024 ** 2, pids: 64 }
  server = await ServerProcess.start({ builds: limits })
  strict = await ServerProcess.start({ builds: { timeoutMs: 6_000, diskBytes: 32 * 1024 ** 2 } })
  key = (await server.ok('/v1/keys', { json: { name: 'tenant', scopes: ['run'] } })).key
})
afterEach(async () => {
  for (const each of [server, strict]) {
    await each.clear()
    expect(await each.factory.traces()).toEqual([])
    await expect.poll(() => readdirSync(each.factory.layout.layersDir), { timeout: 10_000 }).toEqual([])
  }
})
afterAll(async () => {
  listener?.close()
  rmSync(onHost, { recursive: true })
  await Promise.all([server?.cleanUp(), strict?.cleanUp()])
})

/** Python that a build runs as root; what it prints is in the log. */
const python = (code: string) => `python3 - <<'EOF'\n${code}\nEOF`
const lines = (logTail: string) => logTail.split('\n').filter((line) => line.startsWith('try '))

/** Ways out of a sandbox; each says in a line what came of it. */
const attempts = (port: number) => `
import ctypes, glob, os, socket
libc = ctypes.CDLL(None, use_errno=True)
def tell(what, attempt):
    try: print('try', what, attempt())
    except Exception as error: print('try', what, type(error).__name__, flush=True)
def call(*args):
    if libc.syscall(*args) == -1: raise OSError(ctypes.get_errno(), '')
    return 'DONE'
def write(path):
    with open(path, 'w') as file: file.write('escaped')
    return 'DONE'
tell('uid', lambda: open('/proc/self/uid_map').read().split()[1])
tell('root', lambda: write('/proc/1/root${onHost}/a'))
tell('cwd', lambda: write('/proc/1/cwd${onHost}/b'))
tell('path', lambda: write('${onHost}/c'))
def climb():
    os.mkdir('/srv/jail'); fd = os.open('/', os.O_RDONLY); os.chroot('/srv/jail'); os.fchdir(fd)
    for _ in range(64): os.chdir('..')
    os.chroot('.')
    return write('${onHost}/d')
pid = os.fork()
if pid == 0: tell('chroot', climb); os._exit(0)
os.waitpid(pid, 0)
tell('mount', lambda: call(165, b'none', b'/mnt', b'tmpfs', 0, 0))
tell('unshare', lambda: call(272, 0x10000000))
tell('module', lambda: call(313, os.open('/etc/hostname', os.O_RDONLY), b'', 0))
tell('device', lambda: os.mknod('/srv/disk', 0o60666, os.makedev(8, 0)) or 'DONE')
tell('kernel', lambda: write('/proc/sys/kernel/core_pattern'))
tell('sysrq', lambda: write('/proc/sysrq-trigger'))
tell('processes', lambda: len([p for p in glob.glob('/proc/[0-9]*/cmdline') if b'vit' + b'est' in open(p, 'rb').read()]))
def host(address):
    with socket.create_connection((address, ${port}), timeout=5) as peer: peer.sendall(b'x'); return len(peer.recv(1))
tell('port', lambda: host('127.0.0.1'))
tell('gateway', lambda: host('198.18.0.1'))
`

describe('commands of a description, by a key that is no admin', () => {
  test('do not get out of their sandbox', async () => {
    const port = (listener.address() as { port: number }).port
    const made = await buildTemplate(
      server,
      {
        name: 'escape',
        network: { mode: 'public' },
        commands: [python(attempts(port))],
      },
      key,
    )
    expect(made).toMatchObject({ state: 'ready', source: 'description', from: 'python' })
    expect(lines(made.logTail)).toEqual([
      'try uid 100000',
      'try root PermissionError',
      'try cwd PermissionError',
      'try path FileNotFoundError',
      expect.stringMatching(/^try chroot (PermissionError|FileNotFoundError)$/),
      'try mount PermissionError',
      'try unshare PermissionError',
      'try module PermissionError',
      'try device PermissionError',
      expect.stringMatching(/^try kernel (PermissionError|OSError)$/),
      expect.stringMatching(/^try sysrq (FileNotFoundError|PermissionError|OSError)$/),
      'try processes 0',
      'try port ConnectionRefusedError',
      expect.stringMatching(/^try gateway (ConnectionRefusedError|ConnectionResetError|0|TimeoutError)$/),
    ])
    expect(readdirSync(onHost)).toEqual([])
    expect(heard).toBe(0)
  })

  test.each([
    ['processes', python('import os\nwhile True:\n  try: os.fork()\n  except OSError: os._exit(9)')],
    ['memory', python('kept = []\nwhile True: kept.append(bytearray(b"x" * 2**22))')],
  ])(
    'cannot take more %s than a build has; the server answers, and the error names the command',
    async (what, bomb) => {
      let isOver = false
      const building = buildTemplate(server, { name: 'bomb', commands: ['true', bomb] }, key).finally(() => {
        isOver = true
      })
      while (!isOver) await server.ok('/healthz')
      const failed = await building
      expect(failed).toMatchObject({ state: 'failed', error: expect.stringContaining('command 2 of 2') })
      if (what === 'memory') expect(failed.error).toContain('memory')
    },
  )

  test('reach what their policy allows: nothing with none, and by default only where packages come from', async () => {
    const attempt = python(`
import socket
try:
    with socket.create_connection(('203.0.113.7', 80), timeout=5) as peer: peer.sendall(b'x'); print('try address', peer.recv(1))
except OSError as error: print('try address', type(error).__name__)
try: print('try name', socket.getaddrinfo('example.com', 80)[0][4])
except OSError as error: print('try name', type(error).__name__)
`)
    for (const network of [{ network: { mode: 'none' } }, {}]) {
      const made = await buildTemplate(server, { name: 'net', commands: [attempt], ...network }, key)
      expect(lines(made.logTail)).toEqual([
        expect.stringMatching(/^try address Connection(Refused|Reset)Error$/),
        'try name gaierror',
      ])
      await server.ok('/v1/templates/net', { method: 'DELETE', key })
    }
  })
})

describe('a build is ended', () => {
  test('when it takes too long, though it has replaced the Python that its agent is made of', async () => {
    const commands = [
      `printf '#!/bin/sh\\nexec sleep 1000\\n' > /tmp/p && cp --remove-destination /tmp/p /usr/bin/python3 && chmod 755 /usr/bin/python3`,
    ]
    const failed = await buildTemplate(strict, { name: 'slow', commands })
    expect(failed).toMatchObject({ state: 'failed', error: 'The build took longer than 6000 ms.' })
    expect((await strict.ok('/v1/sandboxes')).items).toEqual([])
  })

  test('when it writes more than it may', async () => {
    const failed = await buildTemplate(strict, {
      name: 'large',
      commands: ['head -c 200M /dev/urandom > /srv/large; sleep 1000'],
    })
    expect(failed.state).toBe('failed')
    expect(failed.error).toMatch(/^The build has written \d+ bytes; its limit is 33554432\.$/)
  })
})
