import type { Socket } from 'node:net'
import { newSandboxId } from '@dormouse/contracts'
import { afterEach, describe, expect, test } from 'vitest'
import type { Burrow } from '../engine.ts'
import { eventually, runPython } from './collect.ts'
import { type EngineFactory, NOTHING_UNSAVABLE } from './engine-factory.ts'
import { forkBurrow } from './fork-burrow.ts'
import { useSharedBurrow } from './shared-burrow.ts'
import { NETWORK_HELPERS, TestGate } from './test-gate.ts'

/** Code that brings connections into a state, and what each connection sees after a sleep. */
interface Case {
  /** What the gate does with every connection. */
  readonly gate?: (socket: Socket) => void
  readonly before: string
  readonly after: string
  readonly expected: string
}

const silent = () => {}
const CASES: Readonly<Record<string, Case>> = {
  idle: {
    before: 's = dial("192.0.2.7", 80); s6 = dial("2001:db8::7", 80); s.settimeout(5); s6.settimeout(5)',
    after: 'print(ended(lambda: s.recv(9)), ended(lambda: s6.recv(9)), ended(lambda: s.send(b"x")))',
    expected: 'error error error',
  },
  'dual-stack': {
    before: 's = socket.socket(socket.AF_INET6); s.settimeout(5); s.connect(("::ffff:192.0.2.7", 80))',
    after: 'print(ended(lambda: s.recv(9)))',
    expected: 'error',
  },
  'with unread data on either side': {
    gate: (socket) => void socket.pause().write('received'),
    before: `
s = dial("192.0.2.7", 80); s.setblocking(False)
try:
    while True: s.send(bytes(100_000))
except BlockingIOError: pass
s.settimeout(5)`,
    after: 'print(s.recv(8).decode(), ended(lambda: s.recv(9)))',
    expected: 'received error',
  },
  'closed by the other side, with unread data': {
    gate: (socket) => void socket.end('goodbye'),
    before: 'import time; s = dial("192.0.2.7", 80); s6 = dial("2001:db8::7", 80); time.sleep(0.3)',
    after: 'print([b"".join(iter(lambda: each.recv(99), b"")) for each in (s, s6)])',
    expected: "[b'goodbye', b'goodbye']",
  },
  'closed by this side, waiting for an answer': {
    before: 's = dial("192.0.2.7", 80); s.send(b"question"); s.shutdown(socket.SHUT_WR)',
    after: 'print(ended(lambda: s.recv(9)))',
    expected: 'error',
  },
  'closed by both sides': {
    gate: (socket) => void socket.end(),
    before: 'import time; s = dial("192.0.2.7", 80); time.sleep(0.2); s.shutdown(socket.SHUT_WR)',
    after: 'print(ended(lambda: s.recv(9)))',
    expected: 'end',
  },
  'closed by this side with more to send than fits': {
    gate: (socket) => void socket.pause(),
    before: `
s = dial("192.0.2.7", 80); s.setblocking(False)
try:
    while True: s.send(bytes(100_000))
except BlockingIOError: pass
s.shutdown(socket.SHUT_WR); s.settimeout(5)`,
    after: 'print(ended(lambda: s.recv(9)))',
    expected: 'error',
  },
  'reset by the other side': {
    gate: (socket) => void socket.once('data', () => socket.resetAndDestroy()),
    before: 'import time; s = dial("192.0.2.7", 80); s.send(b"?"); time.sleep(0.3)',
    after: 'print(ended(lambda: s.recv(9)) in ("error", "end"))',
    expected: 'True',
  },
  'closed by its program, in every state that follows': {
    gate: (socket) => void socket.pause().write('never read'),
    before: 'for i in range(50):\n  s = dial("192.0.2.7", 1000 + i); s.send(bytes(10_000)); s.close()',
    after: 'print(outcome(lambda: dial("192.0.2.7", 80)))',
    expected: 'ECONNREFUSED',
  },
  'datagram sockets connected to the resolver and to another address': {
    before: `
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.connect(("198.18.0.1", 53)); s.send(b"?")
t = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); t.connect(("192.0.2.7", 443)); t6 = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM); t6.connect(("2001:db8::7", 443))`,
    after: 'print(s.getpeername()[0], t.getpeername()[0], t6.getpeername()[0])',
    expected: '198.18.0.1 192.0.2.7 2001:db8::7',
  },
}

const HELPERS = `${NETWORK_HELPERS}
def ended(work):
    try: return "end" if work() == b"" else "alive"
    except ConnectionError: return "error"`

export function describeNetworkAsleep(factory: EngineFactory): void {
  const { unsavable } = factory
  describe('connections to the outside, after a sleep', () => {
    const shared = useSharedBurrow(factory)
    const gates: TestGate[] = []
    const open = async (...parameters: Parameters<typeof TestGate.at>) => {
      const gate = await TestGate.at(...parameters)
      gates.push(gate)
      return gate
    }
    const python = async (burrow: Burrow, code: string) =>
      (await runPython(burrow.guest, `${HELPERS}\n${code}`)).trim()
    const sleepAndWake = async (burrow: Burrow) => {
      const { snapshot } = await shared.engine.snapshot(burrow, { leave: 'gone' })
      return shared.hold(await shared.engine.restore(snapshot.id, { sandboxId: burrow.sandboxId }))
    }
    afterEach(async () => {
      for (const gate of gates.splice(0)) await gate[Symbol.asyncDispose]()
    })

    test.each(Object.entries(CASES))(
      'connection: %s',
      async (_name, { gate = silent, before, after, expected }) => {
        const burrow = await shared.create()
        await open(burrow, gate)
        await python(burrow, before)
        const woken = await sleepAndWake(burrow)
        expect(await python(woken, after)).toBe(expected)
        await woken.destroy()
      },
    )

    test('a connection that is not accepted yet has ended', async () => {
      const burrow = await shared.create()
      // The gate accepts none, so the kernel's queue fills up and later connections wait.
      const gate = await burrow.openGate()
      const code = `
import time
waiting = [socket.socket() for _ in range(600)]
for n, s in enumerate(waiting):
    s.setblocking(False); s.connect_ex(("192.0.2.7", 80))
    # The last ones come when the queue is full: the kernel takes more from a burst.
    if n == 560: time.sleep(0.5)`
      await python(burrow, code)
      expect(await python(burrow, 'print(open("/proc/net/tcp").read().count(" 02 ") > 0)')).toBe('True')
      const woken = await sleepAndWake(burrow)
      gate.close()
      const seen = 'print({ended(lambda: (s.settimeout(5), s.send(b"x"), s.recv(9))[2]) for s in waiting})'
      expect(await python(woken, seen)).toBe("{'error'}")
      await woken.destroy()
    })

    test('a program that waits for an answer gets an error, in the parent and children of a fork', async () => {
      const burrow = await shared.create()
      await open(burrow, silent)
      const wait = `
import threading
seen = []
s = dial("192.0.2.7", 80, None)
threading.Thread(target=lambda: seen.append(ended(lambda: s.recv(9))), daemon=True).start()`
      await python(burrow, wait)
      const { parent, children } = await forkBurrow(shared.engine, burrow, {
        sandboxIds: [newSandboxId(), newSandboxId()],
      })
      for (const each of [parent, ...children]) {
        shared.hold(each)
        const seen = () => python(each, 'print(*seen)')
        expect(await eventually('the end of recv', async () => (await seen()) || undefined)).toBe('error')
      }
    })

    test('new connections go through a new gate, also after a rollback', async () => {
      const burrow = await shared.create()
      const greeting = 'print(dial("192.0.2.7", 80).recv(9))'
      await open(burrow)
      await python(burrow, 's = dial("192.0.2.8", 80); s.recv(9)')
      const { snapshot, burrow: next } = await shared.engine.snapshot(burrow, { leave: 'running' })
      await open(shared.hold(next!))
      expect(await python(next!, greeting)).toBe("b'hello'")
      const back = shared.hold(await shared.engine.rollback(next!, snapshot.id))
      const gate = await open(back)
      expect(await python(back, greeting)).toBe("b'hello'")
      expect(gate.arrived).toHaveLength(1)
    })

    test('connections inside, and servers at the burrow’s own address, continue', async () => {
      const burrow = await shared.create()
      await open(burrow, silent)
      const code = `
outside = dial("192.0.2.7", 80)
server = socket.create_server(("198.18.0.2", 7000)); server6 = socket.create_server(("fd64:6f72:6d6f::2", 7000), family=socket.AF_INET6)
a = dial("198.18.0.2", 7000); b, _ = server.accept(); a.sendall(b"before")`
      await python(burrow, code)
      const woken = await sleepAndWake(burrow)
      const after = `
a.sendall(b" after"); print(b.recv(99).decode(), ended(lambda: outside.recv(9)))
for address, each in (("198.18.0.2", server), ("fd64:6f72:6d6f::2", server6)):
    x = dial(address, 7000); y, _ = each.accept(); x.sendall(b"new"); print(y.recv(9).decode())`
      expect(await python(woken, after)).toBe('before after error\nnew\nnew')
    })

    test('a refused snapshot ends no connection and loses no byte', async ({ skip }) => {
      if (unsavable === undefined) return skip(NOTHING_UNSAVABLE)
      const burrow = await shared.create()
      const gate = await open(burrow, (socket) => void socket.pipe(socket))
      const echo = `
import hashlib, os, threading
s = dial("192.0.2.7", 7, None); sent, back = hashlib.sha256(), hashlib.sha256()
def send():
    for _ in range(2000): piece = os.urandom(16384); sent.update(piece); s.sendall(piece)
    s.shutdown(socket.SHUT_WR)
def receive():
    while piece := s.recv(65536): back.update(piece)
threads = [threading.Thread(target=each, daemon=True) for each in (send, receive)]
for each in threads: each.start()`
      await python(burrow, `${echo}\n${unsavable.code}`)
      for (let round = 0; round < 3; round += 1)
        await expect(shared.engine.snapshot(burrow, { leave: 'gone' })).rejects.toMatchObject({
          code: 'snapshot_refused',
          message: expect.stringContaining(unsavable.reason),
        })
      const whole = 'for each in threads: each.join()\nprint(sent.digest() == back.digest())'
      expect(await python(burrow, whole)).toBe('True')
      expect(gate.arrived).toHaveLength(1)
    })

    test('snapshots succeed while bytes flow both ways', async () => {
      const burrow = await shared.create()
      const chunk = Buffer.alloc(65_536)
      await open(burrow, (socket) => {
        const pour = () => {
          while (socket.writable && socket.write(chunk));
        }
        socket.on('drain', pour).resume()
        pour()
      })
      const flow = `
import threading
def flow(port):
    # A sleep may come before the connection is open: then the other end is missing.
    try: s = dial("192.0.2.7", port, None)
    except OSError: return
    def send():
        try:
            while True: s.sendall(bytes(65536))
        except OSError: pass
    threading.Thread(target=send, daemon=True).start()
    try:
        while s.recv(65536): pass
    except OSError: pass
for port in range(4): threading.Thread(target=flow, args=(1000 + port,), daemon=True).start()`
      await python(burrow, flow)
      let current = burrow
      for (let round = 0; round < 5; round += 1) {
        const { burrow: next } = await shared.engine.snapshot(current, { leave: 'running' })
        current = shared.hold(next!)
        await open(current, (socket) => void socket.resume().write(chunk))
        await python(current, flow)
      }
    })
  })
}
