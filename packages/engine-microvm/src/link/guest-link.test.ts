import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { GuestLink } from './guest-link.ts'
import {
  encodeFrame,
  FRAME_MAX_BYTES,
  FrameType,
  LinkDecoder,
  RESET_BYTE,
  STREAMS_MAX,
  WINDOW_BYTES,
} from './link-codec.ts'

const MIB = 1024 ** 2
const WANTED_BYTES = 16 * MIB
/** What streams and the link hold before they wait, and what sockets of this host take. */
const HELD_MAX_BYTES = 4 * MIB
const BYTES_A_ROUND = 256
const USELESS_MAX_BYTES = STREAMS_MAX * WINDOW_BYTES

/** The host's end against a guest that this test plays, and which may lie. */
describe('the link to a guest', () => {
  let link: GuestLink
  let guest: Socket
  let heard: LinkDecoder

  beforeEach(async () => {
    const server = createServer()
    const path = join(tmpdir(), `dormouse-link-${process.pid}-${Date.now()}.sock`)
    server.listen(path)
    await once(server, 'listening')
    const accepted = once(server, 'connection')
    const socket = connect(path)
    await once(socket, 'connect')
    guest = (await accepted)[0] as Socket
    server.close()
    link = GuestLink.over(socket)
    heard = new LinkDecoder()
  })
  afterEach(() => {
    link.close()
    guest.destroy()
  })

  const hear = async (type: number) => {
    for (;;) {
      const [chunk] = (await once(guest, 'data')) as [Buffer]
      const frame = heard.push(chunk).find((each) => each.type === type)
      if (frame !== undefined) return frame
    }
  }
  const greet = async () => {
    const greeted = link.greet()
    const { payload } = await hear(FrameType.hello)
    guest.write(Buffer.concat([RESET_BYTE, encodeFrame(FrameType.hello, 0, payload)]))
    await greeted
  }
  const openAgent = async () => {
    const opening = link.open('agent')
    const { stream } = await hear(FrameType.open)
    guest.write(encodeFrame(FrameType.opened, stream))
    return { stream: await opening, id: stream }
  }
  const answers = async () => {
    const asked = link.control('usage')
    await hear(FrameType.control)
    guest.write(encodeFrame(FrameType.control, 0, Buffer.from('ok 1 2 3')))
    return asked
  }

  test.each<[string, (id: number) => Buffer]>([
    ['a frame longer than the limit', () => Buffer.from([FrameType.data, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff])],
    ['a frame one byte too long', () => Buffer.from([FrameType.data, 0, 0, 0, 0, 0, 0x80, 1])],
    [
      'more data than its credit',
      (id) => Buffer.concat(Array(16).fill(encodeFrame(FrameType.data, id, Buffer.alloc(FRAME_MAX_BYTES)))),
    ],
  ])('ends with a coded error when the guest sends %s', async (_what, forge) => {
    await greet()
    const { stream, id } = await openAgent()
    stream.pause()
    guest.write(forge(id))
    await link.closed
    expect(stream.destroyed).toBe(true)
    await expect(link.control('usage')).rejects.toMatchObject({ code: 'agent_unreachable' })
    await expect(link.open('agent')).rejects.toMatchObject({ code: 'agent_unreachable' })
  })

  test('drops frames that make no sense, and keeps answering', async () => {
    await greet()
    const { stream, id } = await openAgent()
    const nonsense = [
      encodeFrame(FrameType.opened, 77),
      encodeFrame(FrameType.refused, id),
      encodeFrame(FrameType.data, 65_535, Buffer.from('nobody')),
      encodeFrame(FrameType.credit, id, Buffer.from([0xff, 0xff, 0xff, 0xff])),
      encodeFrame(FrameType.credit, id, Buffer.from([1])),
      encodeFrame(FrameType.control, 9, Buffer.from('ok to a question that was not asked')),
      encodeFrame(FrameType.hello, 0, Buffer.from('another nonce')),
      encodeFrame(200, 3, Buffer.from('unknown')),
    ]
    guest.write(Buffer.concat(nonsense))
    guest.write(encodeFrame(FrameType.data, id, Buffer.from('still here')))
    expect(String((await once(stream, 'data'))[0])).toBe('still here')
    expect(await answers()).toBe('1 2 3')
  })

  test('gives a slow reader what came before a reset, and then the reset', async () => {
    await greet()
    const { stream, id } = await openAgent()
    const words = [
      encodeFrame(FrameType.data, id, Buffer.from('last words')),
      encodeFrame(FrameType.reset, id),
    ]
    guest.write(Buffer.concat(words))
    // The reset has arrived when what follows it has.
    expect(await answers()).toBe('1 2 3')
    const heard: string[] = []
    stream.on('data', (chunk) => heard.push(String(chunk)))
    const [error] = await once(stream, 'error')
    expect([heard, error.code]).toEqual([['last words'], 'ECONNRESET'])
  })

  test('hears nothing before the guest has returned the nonce', async () => {
    const greeted = link.greet()
    const forged = [
      RESET_BYTE,
      encodeFrame(FrameType.agentEnded, 0, Buffer.from([1, 9])),
      encodeFrame(FrameType.hello, 0, Buffer.alloc(16)),
    ]
    guest.write(Buffer.concat(forged))
    const { payload } = await hear(FrameType.hello)
    expect(link.agentEnd).toBeUndefined()
    guest.write(encodeFrame(FrameType.hello, 0, payload))
    await greeted
  })

  test('a guest that gives credit without end and reads nothing takes bounded memory, and gets all when it reads', async () => {
    await greet()
    const { stream, id } = await openAgent()
    guest.pause()
    const credit = encodeFrame(FrameType.credit, id, Buffer.alloc(4, 0xff))
    let [sent, read, arrived] = [0, 0, 0]
    const fill = () => {
      for (let hasRoom = true; hasRoom && sent < WANTED_BYTES; sent += FRAME_MAX_BYTES)
        hasRoom = stream.write(Buffer.alloc(FRAME_MAX_BYTES))
    }
    stream.on('drain', fill)
    stream.on('data', (chunk: Buffer) => {
      read += chunk.length
    })
    fill()
    for (let round = 1; round <= WANTED_BYTES / WINDOW_BYTES; round++) {
      // After each of these the host owes credit, which would be one more frame to read.
      const byte = encodeFrame(FrameType.data, id, Buffer.from('x'))
      guest.write(Buffer.concat(Array(BYTES_A_ROUND).fill([credit, byte]).flat()))
      await vi.waitUntil(() => read === round * BYTES_A_ROUND, { timeout: 20_000, interval: 1 })
    }
    expect(sent).toBeLessThan(HELD_MAX_BYTES)
    guest.on('data', (chunk: Buffer) => {
      for (const { type, payload } of heard.push(chunk))
        if (type === FrameType.data) arrived += payload.length
      guest.write(credit)
    })
    guest.resume()
    await vi.waitUntil(() => arrived === WANTED_BYTES, { timeout: 20_000 })
  })

  test('hangs up when the guest sends only what has no use, and says so', async () => {
    await greet()
    const { stream } = await openAgent()
    const useless = Buffer.concat(Array(64).fill(encodeFrame(200, 3, Buffer.alloc(FRAME_MAX_BYTES))))
    let [sent, isOver] = [0, false]
    void link.closed.then(() => {
      isOver = true
    })
    while (!isOver && sent < 2 * USELESS_MAX_BYTES) {
      sent += useless.length
      if (!guest.write(useless)) await Promise.race([once(guest, 'drain'), link.closed])
    }
    await link.closed
    expect(sent).toBeLessThan(USELESS_MAX_BYTES + 8 * useless.length)
    expect(stream.destroyed).toBe(true)
    await expect(link.open('agent')).rejects.toMatchObject({
      code: 'agent_unreachable',
      message: expect.stringContaining('the guest sends only what has no use'),
    })
  })

  test('survives random bytes, and ends with the guest', async () => {
    await greet()
    let seed = 20_261_118
    const random = () => {
      seed = (Math.imul(seed, 1_103_515_245) + 12_345) >>> 0
      return seed >>> 24
    }
    for (let round = 0; round < 200 && !guest.destroyed; round++)
      guest.write(Buffer.from(Array.from({ length: 512 }, random)))
    guest.end()
    await link.closed
    await expect(link.control('usage')).rejects.toMatchObject({ code: 'agent_unreachable' })
  })
})
