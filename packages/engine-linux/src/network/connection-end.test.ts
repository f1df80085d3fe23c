import { expect, test } from 'vitest'
import {
  connectionKey,
  type InsideEnd,
  joinEnds,
  keyOf,
  sendUnacknowledgedAgain,
  withoutBytes,
} from './connection-end.ts'

const HEADER_WORDS = 24
const word = (...bytes: number[]) => new Uint32Array(Uint8Array.from(bytes).buffer)[0] ?? 0

/** The server's end of a connection from 198.18.0.2 port 4000 to 192.0.2.1 port 80. */
function end(
  state: { receiveSeq: number; sendSeq: number; flags?: number },
  received = '',
  unsent = '',
): { id: number; record: Uint8Array } {
  const words = new Uint32Array(HEADER_WORDS)
  const { receiveSeq, sendSeq, flags = 0 } = state
  words.set([0, receiveSeq, sendSeq, received.length, unsent.length, flags])
  words.set([80, 4_000], 13)
  words.set([0, 0, word(0, 0, 0xff, 0xff), word(192, 0, 2, 1)], 15)
  words.set([0, 0, word(0, 0, 0xff, 0xff), word(198, 18, 0, 2)], 19)
  return { id: 7, record: Buffer.concat([new Uint8Array(words.buffer), Buffer.from(received + unsent)]) }
}

const inside = (more: Partial<InsideEnd>): InsideEnd => ({
  ...{ key: '', writtenSeq: 1_000, hasEnded: false, written: Buffer.alloc(0) },
  ...{ receivedSeq: 2_000, cut: Buffer.alloc(0), hasLostEnd: false },
  ...more,
})

function read(joined: ReturnType<typeof joinEnds>) {
  if (joined === undefined) return undefined
  const words = new Uint32Array(new Uint8Array(joined.record.subarray(0, HEADER_WORDS * 4)).buffer)
  const [size, receiveSeq, sendSeq, received = 0, unsent = 0, flags] = words
  const body = Buffer.from(joined.record.subarray(HEADER_WORDS * 4)).toString()
  expect(size).toBe(joined.record.length)
  // It knows no window: it asks for it.
  expect(words[23]).toBe(sendSeq)
  return {
    receiveSeq,
    sendSeq,
    flags,
    in: body.slice(0, received),
    out: body.slice(received, received + unsent),
  }
}

test('an end has the name by which the program inside knows its connection', () => {
  const own = { address: [word(198, 18, 0, 2)], port: 4_000 }
  const other = { address: [0, 0, word(0, 0, 0xff, 0xff), word(192, 0, 2, 1)], port: 80 }
  expect(keyOf(end({ receiveSeq: 0, sendSeq: 0 }))).toBe(connectionKey(own, other))
})

test('what was written and not received becomes received, what was received is not sent again', () => {
  const joined = joinEnds(
    end({ receiveSeq: 996, sendSeq: 2_003 }, 'unread', 'abcde'),
    inside({ written: Buffer.from('seen,new!') }),
  )
  expect(read(joined)).toEqual({ receiveSeq: 1_000, sendSeq: 2_000, flags: 0, in: 'unreadnew!', out: 'cde' })
})

test.each([
  ['the end comes later', { hasLostEnd: false, receivedSeq: 1_995 }, 2_003, 0, 'RECUTcde'],
  ['an end that was acknowledged', { hasLostEnd: true, receivedSeq: 1_994 }, 2_000, 0, 'RECUT'],
  ['an end that the server knows of', { hasLostEnd: true, receivedSeq: 1_994 }, 2_000, 2, 'RECUT'],
])('what was cut is sent once more, before what was unsent: %s', (_name, more, sendSeq, flags, out) => {
  const unsent = sendSeq === 2_000 ? '' : 'abcde'
  const joined = joinEnds(
    end({ receiveSeq: 1_000, sendSeq, flags }, '', unsent),
    inside({ cut: Buffer.from('RECUT'), ...more }),
  )
  const { receivedSeq, hasLostEnd } = more
  expect(read(joined)).toEqual({
    ...{ receiveSeq: 1_000, sendSeq: receivedSeq, flags: hasLostEnd ? 2 : 0 },
    ...{ in: '', out },
  })
})

test('sequence numbers wrap', () => {
  const joined = joinEnds(
    end({ receiveSeq: 0xffff_fffe, sendSeq: 1 }, '', 'xyz'),
    inside({ writtenSeq: 2, written: Buffer.from('1234'), receivedSeq: 0xffff_ffff }),
  )
  expect(read(joined)).toEqual({ receiveSeq: 2, sendSeq: 0xffff_ffff, flags: 0, in: '1234', out: 'yz' })
})

test.each([
  ['the program inside, and the end has arrived', { receiveSeq: 1_000, sendSeq: 2_000 }, true, 1],
  ['the program inside, and the end has not arrived', { receiveSeq: 999, sendSeq: 2_000 }, true, 1],
  ['the server, and the end has arrived', { receiveSeq: 1_000, sendSeq: 2_000, flags: 2 }, false, 0],
  ['the server, before an earlier sleep', { receiveSeq: 1_000, sendSeq: 2_000 }, false, 0],
  ['the server, and the end has not arrived', { receiveSeq: 1_000, sendSeq: 2_001, flags: 2 }, false, 2],
])('a half that was ended by %s', (_who, state, hasEnded, flags) => {
  expect(read(joinEnds(end(state), inside({ hasEnded })))).toEqual({
    ...{ receiveSeq: 1_000, sendSeq: 2_000, flags },
    ...{ in: '', out: '' },
  })
})

test.each([
  ['more was received than written', { receiveSeq: 1_001, sendSeq: 2_000 }],
  ['bytes are missing that neither side has', { receiveSeq: 990, sendSeq: 2_000 }],
  ['more was received inside than sent', { receiveSeq: 1_000, sendSeq: 1_999 }],
  ['unsent bytes are missing', { receiveSeq: 1_000, sendSeq: 2_001 }],
])('ends that do not fit are not joined: %s', (_name, state) => {
  expect(joinEnds(end(state), inside({}))).toBeUndefined()
})

test.each([
  ['what was not acknowledged', 0, 1_995],
  ['the end of this side too', 2, 1_994],
])('without an image, an end sends again %s', (_what, flags, sendSeq) => {
  const { record } = sendUnacknowledgedAgain(
    end({ receiveSeq: 996, sendSeq: 2_000, flags }, 'unread', 'abcde'),
  )
  const words = new Uint32Array(new Uint8Array(record.subarray(0, HEADER_WORDS * 4)).buffer)
  expect([...words.subarray(1, 6)]).toEqual([996, sendSeq, 6, 5, flags])
  expect(Buffer.from(record.subarray(HEADER_WORDS * 4)).toString()).toBe('unreadabcde')
})

test('the names of connections are their records without bytes', () => {
  const joined = joinEnds(end({ receiveSeq: 1_000, sendSeq: 2_003 }, 'abc', 'def'), inside({}))
  const names = withoutBytes(Buffer.concat([joined!.record, joined!.record]))
  expect(names).toHaveLength(2 * HEADER_WORDS * 4)
  const second = names.subarray(HEADER_WORDS * 4)
  expect(keyOf({ id: 7, record: second })).toBe(keyOf(joined!))
  expect([...new Uint32Array(new Uint8Array(second).buffer).subarray(3, 5)]).toEqual([0, 0])
})
