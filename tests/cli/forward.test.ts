import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { connect } from 'node:net'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { useCommandLine } from './command-line.ts'

const cli = useCommandLine()
const launcher = fileURLToPath(new URL('../../dormouse', import.meta.url))

/** Replies with the number of bytes received, after the client has closed its half. */
const COUNTER = `
import socket, threading
listener = socket.create_server(("127.0.0.1", 4000))
def serve(peer):
    count = 0
    while data := peer.recv(65536):
        count += len(data)
    peer.sendall(str(count).encode() + b"\\n" + b"x" * 3_000_000)
    peer.close()
def accept():
    while True:
        threading.Thread(target=serve, args=listener.accept()[:1], daemon=True).start()
threading.Thread(target=accept, daemon=True).start()
`

async function exchange(port: number, bytes: number): Promise<string> {
  const socket = connect({ host: '127.0.0.1', port, allowHalfOpen: true })
  socket.end(Buffer.alloc(bytes))
  const pieces: Buffer[] = []
  for await (const piece of socket) pieces.push(piece as Buffer)
  return Buffer.concat(pieces).toString()
}

test('forward pipes connections in both directions, wakes the sandbox, and ends with Ctrl-C', async () => {
  await cli.json(['create', 'box'])
  await cli.run(['run', 'box', COUNTER])
  const child = spawn(launcher, ['forward', 'box', '0:4000', '0:4001', '--json'], { env: cli.env })
  let problems = ''
  child.stderr.on('data', (data) => {
    problems += data
  })
  const lines: string[] = []
  const reader = createInterface({ input: child.stdout }).on('line', (line) => lines.push(line))
  while (lines.length < 2)
    await Promise.race([once(reader, 'line'), once(child, 'exit').then(() => expect.fail(problems))])
  const [open, closed] = lines.map((line) => JSON.parse(line))
  expect(open).toMatchObject({ host: '127.0.0.1', port: 4000 })
  const answers = await Promise.all([0, 10, 5_000_000].map((bytes) => exchange(open.localPort, bytes)))
  expect(answers.map((answer) => [answer.split('\n')[0], answer.length > 3_000_000])).toEqual([
    ['0', true],
    ['10', true],
    ['5000000', true],
  ])
  await cli.json(['standby', 'box', '--stored'])
  expect((await exchange(open.localPort, 7)).split('\n')[0]).toBe('7')
  await expect(exchange(closed.localPort, 7)).rejects.toThrow(/ECONNRESET/)
  child.kill('SIGINT')
  expect((await once(child, 'exit'))[0]).toBe(130)
})

test('forward shows why a connection was refused', async () => {
  await cli.json(['create', 'box', '--get-or-create'])
  const child = spawn(launcher, ['forward', 'box', '0:4002'], { env: cli.env })
  let text = ''
  child.stderr.on('data', (data) => {
    text += data
  })
  const until = async (pattern: RegExp) => {
    while (!pattern.test(text)) await once(child.stderr, 'data')
    return pattern.exec(text)?.[1] ?? ''
  }
  const port = Number(await until(/127\.0\.0\.1:(\d+) to port 4002 of box/))
  await exchange(port, 1).catch(() => {})
  await until(/port 4002: .*listen/i)
  child.kill('SIGINT')
  await once(child, 'exit')
})
