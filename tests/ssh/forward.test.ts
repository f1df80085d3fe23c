import { type ChildProcess, execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'
import { promisify } from 'node:util'
import { beforeAll, describe, expect, test } from 'vitest'
import { finish, sha256, useSsh } from './ssh-client.ts'

const MIB = 1024 ** 2
const bench = useSsh()

/** In the sandbox: 8000 is a web server, 8001 says how much it heard, 8002 says everything twice. */
const SERVERS = `
import http.server, socketserver, threading
class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = b"hello from inside"
        self.send_response(200); self.send_header("content-length", str(len(body))); self.end_headers(); self.wfile.write(body)
    def log_message(self, *args): pass
class Count(socketserver.BaseRequestHandler):
    def handle(self):
        total = 0
        while data := self.request.recv(65536): total += len(data)
        self.request.sendall(b"%d" % total)
class Echo(socketserver.BaseRequestHandler):
    def handle(self):
        while data := self.request.recv(65536): self.request.sendall(data)
class Server(socketserver.ThreadingTCPServer):
    daemon_threads = True; allow_reuse_address = True
for port, handler in ((8000, Page), (8001, Count), (8002, Echo)):
    threading.Thread(target=Server(("127.0.0.1", port), handler).serve_forever, daemon=True).start()
`

beforeAll(async () => {
  await bench.server.run('box', SERVERS)
})

/** `ssh -N` with these arguments, once the local port listens. */
async function forwarding(
  port: number,
  args: readonly string[],
  settings: string[] = [],
): Promise<ChildProcess> {
  const child = bench.client.start(bench.key, ['-N', ...args, 'box@127.0.0.1'], {
    settings: ['ExitOnForwardFailure=yes', ...settings],
  })
  await expect.poll(() => isListening(port), { timeout: 20_000 }).toBe(true)
  return child
}

async function end(child: ChildProcess): Promise<void> {
  child.kill()
  if (child.exitCode === null && child.signalCode === null) await once(child, 'close')
}

async function isListening(port: number): Promise<boolean> {
  const socket = connect(port, '127.0.0.1')
  return new Promise((resolve) => {
    socket.once('connect', () => resolve(true))
    socket.once('error', () => resolve(false))
  }).finally(() => socket.destroy()) as Promise<boolean>
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as { port: number }
  server.close()
  await once(server, 'close')
  return port
}

async function talk(port: number, data: Buffer): Promise<Buffer> {
  const socket: Socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true })
  const heard: Buffer[] = []
  socket.on('data', (piece) => heard.push(piece))
  socket.end(data)
  await once(socket, 'close')
  return Buffer.concat(heard)
}

describe('ports over SSH', () => {
  test('-L leads to a server inside, each half ends alone, and many bytes are the same', async () => {
    const [web, count, echo] = [await freePort(), await freePort(), await freePort()]
    const args = ['-L', `${web}:localhost:8000`, '-L', `${count}:127.0.0.1:8001`, '-L', `${echo}:box:8002`]
    const child = await forwarding(web, args)
    const answers = await Promise.all(
      Array.from({ length: 20 }, async () => (await fetch(`http://127.0.0.1:${web}/`)).text()),
    )
    expect(new Set(answers)).toEqual(new Set(['hello from inside']))
    expect((await talk(count, Buffer.alloc(5 * MIB))).toString()).toBe(String(5 * MIB))
    const sent = Buffer.alloc(20 * MIB, 'some text, ')
    expect(sha256(await talk(echo, sent))).toBe(sha256(sent))
    await end(child)
  })

  test('-L continues while the sandbox sleeps: what the client sends wakes it, and no byte is lost', async () => {
    const echo = await freePort()
    const child = await forwarding(echo, ['-L', `${echo}:localhost:8002`])
    const socket = connect({ port: echo, host: '127.0.0.1', allowHalfOpen: true })
    const heard: Buffer[] = []
    let heardBytes = 0
    socket.on('data', (piece) => {
      heard.push(piece)
      heardBytes += piece.length
    })
    const sent: Buffer[] = []
    for (const tier of ['stored', 'frozen', 'stored']) {
      const piece = randomBytes(MIB)
      sent.push(piece)
      socket.write(piece)
      await expect.poll(() => heardBytes, { timeout: 30_000 }).toBe(sent.length * MIB)
      await bench.server.ok('/v1/sandboxes/box/standby', { json: { tier } })
      expect((await bench.server.ok('/v1/sandboxes/box')).state).toBe('standby')
    }
    socket.end(randomBytes(0))
    await bench.server.ok('/v1/sandboxes/box/resume', { json: {} })
    await once(socket, 'close')
    expect(sha256(Buffer.concat(heard))).toBe(sha256(Buffer.concat(sent)))
    await end(child)
  })

  test('-D is a SOCKS proxy into the sandbox, -W a pipe', async () => {
    const port = await freePort()
    const child = await forwarding(port, ['-D', `127.0.0.1:${port}`])
    const proxy = ['--silent', '--socks5-hostname', `127.0.0.1:${port}`]
    const { stdout } = await promisify(execFile)('curl', [...proxy, 'http://localhost:8000/'])
    expect(stdout).toBe('hello from inside')
    await end(child)
    const piped = await bench.client.ssh(bench.key, ['-W', 'localhost:8001', 'box@127.0.0.1'], {
      input: 'twelve bytes',
    })
    expect(piped.stdout.toString()).toBe('12')
  })

  test('a port without a listener, and other hosts, are refused with the reason', async () => {
    const settings = ['LogLevel=INFO']
    const to = (address: string) =>
      bench.client.ssh(bench.key, ['-W', address, 'box@127.0.0.1'], { settings })
    expect((await to('localhost:8999')).stderr).toMatch(/nothing listens on port 8999/)
    for (const host of ['example.com', '169.254.169.254', '10.0.0.1', 'localhost.example.com'])
      expect((await to(`${host}:80`)).stderr).toContain(
        `only ports of the sandbox itself can be forwarded, not ${host}`,
      )
  })

  test('-R and agents are refused, and the rest works', async () => {
    const settings = ['ExitOnForwardFailure=yes']
    const remote = await bench.client.ssh(bench.key, ['-R', '9000:localhost:9', 'box@127.0.0.1', 'true'], {
      settings,
    })
    expect([remote.code, remote.stderr]).toEqual([
      255,
      expect.stringContaining('remote port forwarding failed'),
    ])
    const agent = await bench.client.ssh(bench.key, ['-A', 'box@127.0.0.1', 'echo [$SSH_AUTH_SOCK]'])
    expect(agent.stdout.toString()).toBe('[]\n')
  })
})

describe('what editors do', () => {
  test('a script over stdin starts a server, whose port is then forwarded over the same connection', async () => {
    const port = await freePort()
    const child = bench.client.start(bench.key, ['-T', '-D', `127.0.0.1:${port}`, 'box@127.0.0.1', 'bash'])
    const ended = finish(child)
    let shown = ''
    child.stdout?.on('data', (piece) => {
      shown += piece
    })
    child.stdin?.write('uname -sm; mkdir -p ~/.editor/bin; cat > ~/.editor/bin/page <<"EOF"\nserved\nEOF\n')
    child.stdin?.write(
      'cd ~/.editor/bin; nohup python3 -m http.server 8080 --bind 127.0.0.1 > /dev/null 2>&1 &\n',
    )
    child.stdin?.write(
      'until curl -s localhost:8080/ > /dev/null; do sleep 0.05; done; echo "listeningOn==8080=="\n',
    )
    await expect.poll(() => shown, { timeout: 20_000 }).toMatch(/Linux \S+\n[\s\S]*listeningOn==8080==/)
    const proxy = ['--silent', '--socks5-hostname', `127.0.0.1:${port}`]
    const { stdout } = await promisify(execFile)('curl', [...proxy, 'http://127.0.0.1:8080/page'])
    expect(stdout).toBe('served\n')
    child.stdin?.end('exit 0\n')
    expect((await ended).code).toBe(0)
    expect((await bench.exec('curl -s localhost:8080/page')).stdout.toString()).toBe('served\n')
  })
})
