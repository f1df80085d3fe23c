import { createReadStream } from 'node:fs'
import { Readable } from 'node:stream'
import { describe, expect, test } from 'vitest'
import { type Content, contentBody } from './content.ts'

const textOf = (content: Content) => new Response(contentBody('content', content).body).text()

describe('content', () => {
  test('is text, bytes, a Blob, or a stream of the web or of Node', async () => {
    expect(await textOf('text')).toBe('text')
    expect(await textOf(new TextEncoder().encode('bytes'))).toBe('bytes')
    expect(await textOf(new TextEncoder().encode('buffer').buffer)).toBe('buffer')
    expect(await textOf(new Blob(['blob']))).toBe('blob')
    expect(await textOf(new Blob(['web']).stream())).toBe('web')
    expect(await textOf(Readable.from(['no', '', Buffer.from('de')]))).toBe('node')
    expect(await textOf(createReadStream(import.meta.filename))).toMatch(/^import/)
  })

  test.each([
    [{ a: 1 }, 'an object'],
    [[1, 2], 'an array'],
    [5, '5'],
    [null, 'null'],
    [undefined, 'undefined'],
    [new Map(), 'an object of class Map'],
  ])('is not %o', (value, shown) => {
    expect(() => contentBody('content', value as unknown as Content)).toThrow(
      expect.objectContaining({
        code: 'invalid_argument',
        message: `content: must be a string, bytes, a Blob or a stream (saw ${shown})`,
      }),
    )
  })

  test('is not a stream that was read, or has another reader', async () => {
    const read = Readable.from(['a'])
    await read.toArray()
    expect(() => contentBody('content', read)).toThrow(/content: is a stream that has ended/)
    const locked = new Blob(['a']).stream()
    locked.getReader()
    expect(() => contentBody('content', locked)).toThrow(/content: is a stream that another reader has/)
  })

  test('a stream that fails throws its own error, and one that is not read is destroyed', async () => {
    const missing = contentBody('content', createReadStream('/does/not/exist'))
    const sent = missing.use(() => new Response(missing.body).text())
    await expect(sent).rejects.toMatchObject({ code: 'ENOENT' })
    const unread = createReadStream(import.meta.filename)
    const refused = contentBody('content', unread).use(() => Promise.reject(new Error('refused')))
    await expect(refused).rejects.toThrow('refused')
    await new Promise((resolve) => unread.once('close', resolve))
  })

  test('a stream of anything else is refused', async () => {
    const numbers = contentBody('content', Readable.from([1, 2]) as Content)
    await expect(numbers.use(() => new Response(numbers.body).text())).rejects.toThrow(
      'content: must be a stream of text or bytes (saw 1)',
    )
  })
})
