import { describe, expect, it } from 'vitest'
import { parseImage, serializeImage } from './image-file.ts'
import { encodeMessage, type Message, setUint } from './message.ts'
import { MAGIC } from './trailing-bytes.ts'

function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32LE(value)
  return bytes
}

function record(fields: Record<number, bigint>): Buffer {
  const message: Message = []
  for (const [no, value] of Object.entries(fields)) setUint(message, Number(no), value)
  const payload = encodeMessage(message)
  return Buffer.concat([uint32(payload.length), payload])
}

function image(kind: number, ...pieces: Buffer[]): Buffer {
  return Buffer.concat([uint32(MAGIC.common), uint32(kind), ...pieces])
}

const roundTrip = (bytes: Buffer) => Buffer.from(serializeImage(parseImage(bytes)!))

describe('parseImage', () => {
  it.each([
    [
      'pipe data',
      image(MAGIC.pipesData, record({ 1: 1n, 2: 5n }), Buffer.from('bytes'), record({ 1: 2n, 2: 0n })),
      2,
    ],
    ['queued packets', image(MAGIC.socketQueues, record({ 1: 1n, 2: 3n }), Buffer.from('abc')), 1],
    ['a TCP stream', image(MAGIC.tcpStream, record({ 1: 2n, 2: 9n, 3: 1n }), Buffer.from('inO')), 1],
    ['a deleted file', image(MAGIC.ghostFile, record({ 1: 0n, 3: 33188n }), Buffer.from('all of it')), 1],
    [
      'a deleted sparse file',
      image(
        MAGIC.ghostFile,
        record({ 1: 0n, 9: 1n }),
        record({ 1: 4n, 2: 0n }),
        Buffer.from('some'),
        record({ 1: 0n, 2: 9n }),
      ),
      3,
    ],
    [
      'semaphores, rounded up',
      image(MAGIC.semaphores, record({ 2: 3n }), Buffer.alloc(8), record({ 2: 1n }), Buffer.alloc(8)),
      2,
    ],
    [
      'shared memory, rounded up',
      image(MAGIC.sharedMemory, record({ 2: 5n }), Buffer.alloc(8), record({ 2: 99n, 3: 1n })),
      2,
    ],
    [
      'message queues',
      image(MAGIC.messageQueues, record({ 3: 1n }), record({ 1: 1n, 2: 3n }), Buffer.alloc(8)),
      1,
    ],
  ])('tells records from the bytes between them: %s', (_, bytes, records) => {
    expect(parseImage(bytes)?.records).toHaveLength(records)
    expect(roundTrip(bytes)).toEqual(bytes)
  })

  it('knows the inventory by its single magic number', () => {
    const bytes = Buffer.concat([uint32(MAGIC.inventory), record({ 1: 2n })])
    expect(parseImage(bytes)?.head).toHaveLength(4)
    expect(roundTrip(bytes)).toEqual(bytes)
  })

  it('leaves files without a magic number alone', () => {
    expect(parseImage(Buffer.alloc(8192))).toBeUndefined()
    expect(parseImage(Buffer.alloc(0))).toBeUndefined()
  })

  it.each([2, 6, 11])('refuses an image that ends %i bytes early', (missing) => {
    const whole = image(MAGIC.pipesData, record({ 1: 1n, 2: 5n }), Buffer.from('bytes'))
    expect(() => parseImage(whole.subarray(0, whole.length - missing))).toThrow('ends in the middle')
  })
})
