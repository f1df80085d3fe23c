import { describe, expect, test } from 'vitest'
import {
  encodeFrame,
  encodeJsonFrame,
  FRAME_MAX_BYTES,
  FrameDecoder,
  FrameTooLargeError,
  FrameType,
} from './frames.ts'

describe('frames', () => {
  const frames = [
    encodeJsonFrame(FrameType.request, 1, { op: 'ä', n: 1 }),
    encodeFrame(FrameType.data, 0xffffffff, Buffer.alloc(100_000, 7)),
    encodeFrame(FrameType.end, 2),
  ]
  const bytes = Buffer.concat(frames)

  test.each([1, 2, 9, 10, 11, 4096, bytes.byteLength])(
    'come out whole when bytes come in pieces of %i',
    (size) => {
      const decoder = new FrameDecoder()
      const out = []
      for (let at = 0; at < bytes.byteLength; at += size)
        out.push(...decoder.push(bytes.subarray(at, at + size)))
      expect(out.map(({ type, channel, payload }) => [type, channel, payload.byteLength])).toEqual([
        [FrameType.request, 1, frames[0]!.byteLength - 10],
        [FrameType.data, 0xffffffff, 100_000],
        [FrameType.end, 2, 0],
      ])
      expect(JSON.parse(out[0]!.payload.toString())).toEqual({ op: 'ä', n: 1 })
      expect(out[1]!.payload.every((byte) => byte === 7)).toBe(true)
    },
  )

  test('a length over the limit is refused before anything is held', () => {
    const header = Buffer.alloc(10)
    header.writeUInt32BE(FRAME_MAX_BYTES + 1, 0)
    expect(() => new FrameDecoder().push(header)).toThrow(FrameTooLargeError)
  })
})
