import { createHash } from 'node:crypto'
import { once } from 'node:events'
import type { Duplex } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import type { Guest } from '../guest.ts'
import { collectBytes, eventually, runPython } from './collect.ts'
import type { EngineFactory } from './engine-factory.ts'
import { useSharedBurrow } from './shared-burrow.ts'

const MIB = 1024 ** 2

/** Starts `talk(connection)` for each connection to `port`, in threads of the default context. */
const serve = (port: number, talk: string, { host = '127.0.0.1', family = 'AF_INET' } = {}) => `
import socket, threading
def serve_${port}():
${talk
  .trim()
  .split('\n')
  .map((line) => `    ${line}`)
  .join('\n')}
    listener = socket.create_server(("${host}", ${port}), family=socket.${family})
    def accept():
        while True: threading.Thread(target=talk, args=listener.accept()[:1], daemon=True).start()
    threading.Thread(target=accept, daemon=True).start()
serve_${port}()`

const ECHO = `
def talk(connection):
    with connection:
        while data := connection.recv(65536): connection.sendall(data)
`

export function describePorts(factory: EngineFactory): void {
  describe('ports', () => {
    const shared = useSharedBurrow(factory)

    test('bytes flow both ways, and ending one half leaves the other open', async () => {
      const talk = `
def talk(connection):
    with connection:
        total = 0
        while data := connection.recv(65536): total += len(data)
        connection.sendall(b"%d" % total)
`
      await runPython(shared.guest, serve(4001, talk))
      const connection = await shared.guest.ports.connect(4001)
      connection.write('hello ')
      connection.end('you')
      expect((await collectBytes(connection)).toString()).toBe('9')
    })

    test('the program inside may end its half first', async () => {
      const talk = `
def talk(connection):
    connection.sendall(b"first")
    connection.shutdown(socket.SHUT_WR)
    global heard
    heard = b""
    while data := connection.recv(100): heard += data
    connection.close()
`
      await runPython(shared.guest, serve(4002, talk))
      const connection = await shared.guest.ports.connect(4002)
      expect((await collectUntilEnd(connection)).toString()).toBe('first')
      connection.end('still heard')
      const heard = async () => (await runPython(shared.guest, 'print(globals().get("heard"))')).trim()
      await eventually('the rest', async () => (await heard()) === "b'still heard'")
    })

    test('64 MiB return unchanged', async () => {
      await runPython(shared.guest, serve(4003, ECHO))
      const connection = await shared.guest.ports.connect(4003)
      const sent = createHash('sha256')
      const sending = (async () => {
        for (let n = 0; n < 64; n += 1) {
          const piece = Buffer.alloc(MIB, `piece ${n}, `)
          sent.update(piece)
          if (!connection.write(piece)) await once(connection, 'drain')
        }
        connection.end()
      })()
      const received = createHash('sha256')
      for await (const piece of connection) received.update(piece)
      await sending
      expect(received.digest('hex')).toBe(sent.digest('hex'))
    })

    test('a reader that pauses makes the writer pause, on either side', async () => {
      const talk = `
def talk(connection):
    global written
    written = 0
    piece = b"x" * 65536
    for _ in range(1024):
        connection.sendall(piece); written += len(piece)
    connection.close()
`
      const written = async () => Number(await runPython(shared.guest, 'print(globals().get("written", 0))'))
      await runPython(shared.guest, serve(4004, talk))
      const slow = await shared.guest.ports.connect(4004)
      await sleep(500)
      const before = await written()
      expect(before).toBeLessThan(32 * MIB)
      await sleep(200)
      expect(await written()).toBe(before)
      expect((await collectBytes(slow)).byteLength).toBe(64 * MIB)

      const deaf = 'def talk(connection):\n    import time; time.sleep(1000)\n'
      await runPython(shared.guest, serve(4005, deaf))
      const full = await shared.guest.ports.connect(4005)
      let taken = 0
      for (let n = 0; n < 64; n += 1) full.write(Buffer.alloc(MIB), () => (taken += MIB))
      await sleep(500)
      expect(taken).toBeLessThan(32 * MIB)
      full.destroy()
    })

    test('two hundred concurrent connections do not mix', async () => {
      await runPython(shared.guest, serve(4006, ECHO))
      const answers = await Promise.all(
        Array.from({ length: 200 }, async (_, n) => {
          const connection = await shared.guest.ports.connect(4006)
          connection.end(`number ${n}`)
          return (await collectBytes(connection)).toString()
        }),
      )
      expect(answers).toEqual(Array.from({ length: 200 }, (_, n) => `number ${n}`))
    })

    test('a listener on ::1 only is reached', async () => {
      await runPython(shared.guest, serve(4007, ECHO, { host: '::1', family: 'AF_INET6' }))
      const connection = await shared.guest.ports.connect(4007)
      connection.end('six')
      expect((await collectBytes(connection)).toString()).toBe('six')
    })

    test('a port without a listener is refused, and so is an invalid port', async () => {
      await expect(shared.guest.ports.connect(4999)).rejects.toMatchObject({
        code: 'port_closed',
        message: expect.stringContaining('4999'),
      })
      for (const port of [0, -1, 65_536, 1.5, Number.NaN, '80' as unknown as number])
        await expect(shared.guest.ports.connect(port)).rejects.toMatchObject({ code: 'invalid_argument' })
    })

    test('a reset from inside is an error, a reset from outside is seen inside', async () => {
      const talk = `
def talk(connection):
    import struct
    global seen
    if connection.recv(100) == b"reset":
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()
        return
    connection.sendall(b"ready")
    try: connection.recv(100); seen = "end"
    except OSError as error: seen = type(error).__name__
`
      await runPython(shared.guest, serve(4008, talk))
      const first = await shared.guest.ports.connect(4008)
      first.write('reset')
      await expect(collectBytes(first)).rejects.toMatchObject({ code: 'port_closed' })
      const stop = new AbortController()
      const second = await shared.guest.ports.connect(4008, { signal: stop.signal })
      second.on('error', () => {})
      second.write('stay')
      await once(second, 'data')
      stop.abort()
      const seen = async () => (await runPython(shared.guest, 'print(globals().get("seen"))')).trim()
      await eventually('the reset', async () => (await seen()) === 'ConnectionResetError')
    })

    test('bytes sent before a reset arrive, also while the other side sends', async () => {
      const talk = `
def talk(connection):
    connection.recv(10)
    connection.sendall(b"enough")
    connection.close()
`
      await runPython(shared.guest, serve(4011, talk))
      for (let n = 0; n < 20; n += 1) {
        const connection = await shared.guest.ports.connect(4011)
        const heard: Buffer[] = []
        connection.on('data', (piece: Buffer) => heard.push(piece))
        connection.write(Buffer.alloc(8 * MIB))
        expect(await new Promise((resolve) => connection.on('error', resolve))).toMatchObject({
          code: 'port_closed',
        })
        expect(Buffer.concat(heard).toString()).toBe('enough')
      }
    })

    test('waiting ends when a program listens, or at the time-out; listening ports are listed', async () => {
      const { ports } = shared.guest
      await expect(ports.wait(4009, { timeoutMs: 100 })).rejects.toMatchObject({ code: 'port_closed' })
      const waiting = ports.wait(4009, { timeoutMs: 20_000 })
      // The guest takes requests in order: after this answer it is waiting.
      await ports.list()
      await runPython(shared.guest, serve(4009, ECHO, { host: '0.0.0.0' }))
      expect(await waiting).toEqual({ port: 4009, address: '0.0.0.0' })
      expect(await ports.wait(4009, { timeoutMs: 0 })).toEqual({ port: 4009, address: '0.0.0.0' })
      expect(await ports.list()).toContainEqual({ port: 4009, address: '0.0.0.0' })
    })

    test('a listener survives a sleep; a connection from outside ends', async () => {
      const burrow = await shared.create()
      await runPython(burrow.guest, serve(4010, ECHO))
      const before = await echoing(burrow.guest, 4010)
      const unread = await burrow.guest.ports.connect(4010)
      unread.write(Buffer.alloc(MIB))
      await eventually('something to read', async () => unread.readableLength > 0)
      const ended = Promise.all(
        [before, unread].map((one) => new Promise((resolve) => one.on('error', resolve))),
      )
      const { snapshot } = await shared.engine.snapshot(burrow, { leave: 'gone' })
      for (const error of await ended) expect(error).toBeInstanceOf(Error)
      const woken = shared.hold(await shared.engine.restore(snapshot.id, { sandboxId: burrow.sandboxId }))
      const after = await echoing(woken.guest, 4010)
      after.destroy()
      await woken.destroy()
      await shared.engine.deleteSnapshot(snapshot.id)
    })
  })
}

/** A connection to an echo server that has answered once. */
async function echoing(guest: Guest, port: number): Promise<Duplex> {
  const connection = await guest.ports.connect(port)
  connection.write('hello')
  const [piece] = await once(connection, 'data')
  expect(piece.toString()).toBe('hello')
  return connection
}

/** Does not destroy the stream, unlike leaving a `for await` loop. */
async function collectUntilEnd(connection: Duplex): Promise<Buffer> {
  const pieces: Buffer[] = []
  connection.on('data', (piece: Buffer) => pieces.push(piece))
  await once(connection, 'end')
  return Buffer.concat(pieces)
}
