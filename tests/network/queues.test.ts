import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { World } from './world/world.ts'

let world: World
let outside: ChildProcess
beforeAll(async () => {
  world = await World.make()
  outside = await world.startOutside('echo.mjs')
})
afterAll(() => world?.[Symbol.asyncDispose]())

const MIB = 1024 ** 2
/** Far more than the kernel gives: it takes as much as it may have. */
const GREEDY = `
import hashlib
def greedy(family=socket.AF_INET):
    s = socket.socket(family)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 30)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 30)
    s.settimeout(30)
    return s
def waiting(s):
    import fcntl, struct, termios
    return struct.unpack("i", fcntl.ioctl(s, termios.FIONREAD, bytes(4)))[0]
def settled(s):
    before = -1
    while before != waiting(s): before = waiting(s); time.sleep(0.2)
    return before
def whole(s):
    digest, size = hashlib.sha256(), 0
    while piece := s.recv(1 << 20): digest.update(piece); size += len(piece)
    return [size, digest.hexdigest() == hashlib.sha256(b"0123456789abcdef" * (size // 16)).hexdigest()]
`

const tell = async (message: object) => {
  const answer = once(outside, 'message')
  outside.send({ id: 'tell', ...message })
  return (await answer)[0] as { ends: string[]; open: number }
}
const standby = (id: string, tier: string) =>
  world.server.ok(`/v1/sandboxes/${id}/standby`, { json: { tier } })

test.each([
  ['continues', false],
  ['ends', true],
])(
  'a program that enlarges its buffer and stops reading gets every byte after a sleep, and the stream %s',
  async (_what, end) => {
    const id = await world.create()
    await world.server.run(id, `${GREEDY}\ns = greedy(); s.connect(("11.22.33.44", 7008))`)
    await expect.poll(async () => (await tell({})).open, { timeout: 30_000 }).toBe(1)
    await tell({ say: '0123456789abcdef', count: (24 * MIB) / 16, end })
    // More than a restore could bring back, where the host allows more.
    expect(await world.inside<number>(id, 'settled(s)')).toBeGreaterThan(MIB / 8)
    for (const tier of ['stored', 'frozen', 'stored']) {
      await standby(id, tier)
      expect(await world.inside<number>(id, 'settled(s)')).toBeGreaterThan(MIB / 8)
    }
    if (!end) await tell({ end: true })
    expect(await world.inside(id, 'whole(s)')).toEqual([24 * MIB, true])
    await world.server.run(id, 's.close()')
    await expect.poll(async () => (await tell({})).open, { timeout: 30_000 }).toBe(0)
  },
)

test.each([
  ['ordinary', [true]],
  // Whole, or closed where a restore cannot take as much.
  ['greedy', [true, 'OSError', 'BrokenPipeError']],
])('a full connection between two %s programs inside never keeps the sandbox asleep', async (make, ends) => {
  const id = await world.create()
  const fill = `
def ordinary(): return socket.socket()
listener = ${make}(); listener.bind(("127.0.0.1", 7100)); listener.listen()
near = ${make}(); near.connect(("127.0.0.1", 7100)); far, _ = listener.accept()
small = socket.create_connection(("127.0.0.1", 7100)); other, _ = listener.accept(); small.settimeout(20)
near.settimeout(1); sent = 0
try:
    while True: sent += near.send(b"0123456789abcdef" * 4096)
except TimeoutError: pass
def drained():
    near.settimeout(20); far.settimeout(20)
    try: near.shutdown(socket.SHUT_WR); return whole(far) == [sent, True]
    except OSError as error: return type(error).__name__
def works(text):
    small.sendall(text); return other.recv(100) == text`
  await world.server.run(id, `${GREEDY}\n${fill}`)
  expect(await world.inside<number>(id, 'sent')).toBeGreaterThan(MIB / 4)
  for (const tier of ['stored', 'frozen', 'stored']) {
    await standby(id, tier)
    expect(await world.inside(id, 'works(b"hello")')).toBe(true)
  }
  expect(ends).toContain(await world.inside(id, 'drained()'))
})
