import { describe, expect, test } from 'vitest'
import { readPart } from './read-part.ts'

const stream = (...pieces: Uint8Array[]) =>
  new ReadableStream<Uint8Array>({
    start(controller) {
      for (const piece of pieces) controller.enqueue(piece)
      controller.close()
    },
  })
const bytes = (text: string) => new TextEncoder().encode(text)

describe('a part of a file', () => {
  test('joins with the others to the whole file, wherever it was cut', async () => {
    const text = 'a€b😀cäd'
    const whole = bytes(text)
    for (let maxBytes = 4; maxBytes <= whole.length + 1; maxBytes++) {
      for (const pieceBytes of [1, 3, whole.length]) {
        let read = ''
        let offsetBytes: number | undefined = 0
        while (offsetBytes !== undefined) {
          const pieces = []
          for (let at = 0; at < whole.length; at += pieceBytes) pieces.push(whole.slice(at, at + pieceBytes))
          const part = await readPart(stream(...pieces), { offsetBytes, maxBytes })
          read += part.text
          offsetBytes = part.nextOffsetBytes
        }
        expect(read).toBe(text)
      }
    }
  })

  test('smaller than one character is bytes, and has a next part', async () => {
    const part = await readPart(stream(bytes('😀')), { offsetBytes: 0, maxBytes: 2 })
    expect(part).toMatchObject({ text: undefined, nextOffsetBytes: 2 })
  })

  test('that is binary has no text', async () => {
    const binary = new Uint8Array([0x89, 0x50, 0, 0xff])
    const part = await readPart(stream(binary), { offsetBytes: 1, maxBytes: 2 })
    expect([...part.bytes]).toEqual([0x50, 0])
    expect(part.text).toBeUndefined()
    expect(part.nextOffsetBytes).toBe(3)
  })

  test('after the end, or of an empty file, is empty', async () => {
    for (const content of ['', 'abc']) {
      const part = await readPart(stream(bytes(content)), { offsetBytes: 10, maxBytes: 5 })
      expect(part).toMatchObject({ text: '', nextOffsetBytes: undefined })
    }
  })

  test('does not read the rest', async () => {
    let pulled = 0
    const endless = new ReadableStream<Uint8Array>({
      pull(controller) {
        pulled += 1
        controller.enqueue(new Uint8Array(1000))
      },
    })
    await readPart(endless, { offsetBytes: 0, maxBytes: 1500 })
    expect(pulled).toBeLessThan(5)
  })
})
