import { WireType } from '@bufbuild/protobuf/wire'
import { expect, test } from 'vitest'
import type { Message } from './message.ts'
import { describeStream, emptiedStream } from './tcp-stream.ts'

const ESTABLISHED = 1n
const CLOSE_WAIT = 8n

const numbers = (fields: Readonly<Record<number, number>>): Message =>
  Object.entries(fields).map(([no, value]) => ({
    no: Number(no),
    type: WireType.Varint,
    value: BigInt(value),
  }))
/** Received `ina` up to 100, `outa` to send up to 200; the window from 98 ends at 150. */
const stream = (more: Readonly<Record<number, number>> = {}) => ({
  message: numbers({ 1: 3, 2: 100, 3: 4, 4: 200, 12: 2, 13: 97, 16: 52, 17: 98, ...more }),
  trailing: Buffer.from('inaouta'),
})
const text = (bytes: Uint8Array) => Buffer.from(bytes).toString()

test('what was received stays, what was to be sent goes', () => {
  const { message, trailing } = emptiedStream(stream(), { maxBytes: 3, hasReceivedEnd: false })
  expect(text(trailing)).toBe('ina')
  expect(message).toEqual(numbers({ 1: 3, 2: 100, 3: 0, 4: 200, 12: 0, 13: 97, 16: 52, 17: 98 }))
})

test('what a restore cannot bring back is cut, and the window reaches as far as before', () => {
  const { message, trailing } = emptiedStream(stream(), { maxBytes: 1, hasReceivedEnd: false })
  expect(text(trailing)).toBe('i')
  expect(message).toEqual(numbers({ 1: 1, 2: 98, 3: 0, 4: 200, 12: 0, 13: 98, 16: 52, 17: 98 }))
})

test('an end that was received is cut with the bytes before it', () => {
  const { message } = emptiedStream(stream({ 2: 1 }), { maxBytes: 1, hasReceivedEnd: true })
  // The sequence number has wrapped: the window still ends at 150.
  expect(message).toEqual(
    numbers({ 1: 1, 2: 0xffff_fffe, 3: 0, 4: 200, 12: 0, 13: 0xffff_fffe, 16: 152, 17: 0xffff_fffe }),
  )
})

test.each([
  ['nothing was cut', ESTABLISHED, 0, { receivedSeq: 100, cut: '', hasLostEnd: false }],
  ['bytes were cut', ESTABLISHED, 2, { receivedSeq: 98, cut: 'na', hasLostEnd: false }],
  ['the end was cut', CLOSE_WAIT, 2, { receivedSeq: 97, cut: 'na', hasLostEnd: true }],
  ['an end stays', CLOSE_WAIT, 0, { receivedSeq: 100, cut: '', hasLostEnd: false }],
])('a stream is described: %s', (_name, state, cutBytes, expected) => {
  const { written, cut, receivedSeq, hasLostEnd } = describeStream(stream(), state, cutBytes)
  expect({ receivedSeq, cut: text(cut), hasLostEnd }).toEqual(expected)
  expect(text(written)).toBe('outa')
})
