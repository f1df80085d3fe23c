import { describe, expect, it, test } from 'vitest'
import { type AnswerHead, AnswerReader } from './answer-reader.ts'

interface Seen {
  status: number
  headers: readonly string[]
  body: string
  canContinue: boolean | undefined
}

/** Reads `text` in pieces of `size` bytes. `end`: the program closes the connection afterwards. */
function read(text: string, { size = 1e6, hasBody = true, end = false } = {}): Seen {
  const seen: Seen = { status: 0, headers: [], body: '', canContinue: undefined }
  const reader = new AnswerReader()
  reader.expect(
    {
      onHead({ status, rawHeaders }: AnswerHead) {
        Object.assign(seen, { status, headers: rawHeaders })
      },
      onBody: (piece) => {
        seen.body += piece.toString('latin1')
      },
      onEnd: (canContinue) => {
        seen.canContinue = canContinue
      },
    },
    { hasBody },
  )
  const data = Buffer.from(text, 'latin1')
  for (let at = 0; at < data.length; at += size) reader.take(data.subarray(at, at + size))
  if (end) reader.end()
  return seen
}

const CHUNKED = 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n'

describe.each([1, 2, 3, 7, 1e6])('responses that come in pieces of %i bytes', (size) => {
  it('have the length that they say', () => {
    expect(read('HTTP/1.1 201 Made\r\nA: b \r\nContent-Length: 5\r\n\r\nhello', { size })).toEqual({
      status: 201,
      headers: ['A', 'b', 'Content-Length', '5'],
      body: 'hello',
      canContinue: true,
    })
  })

  it('may be chunked, with extensions and a trailer', () => {
    const text = `${CHUNKED}5;a=b\r\nhello\r\nA\r\n, world!!!\r\n0\r\nX: y\r\n\r\n`
    expect(read(text, { size })).toMatchObject({ body: 'hello, world!!!', canContinue: true })
  })

  it('may last until the connection ends, which then carries no other', () => {
    const text = 'HTTP/1.1 200 OK\r\n\r\nall of it'
    expect(read(text, { size, end: true })).toMatchObject({ body: 'all of it', canContinue: false })
  })

  it('come after interim responses', () => {
    const text = 'HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n'
    expect(read(text, { size })).toMatchObject({ status: 204, body: '', canContinue: true })
  })
})

test.each([
  ['to HEAD', 'HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n', false],
  ['304', 'HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n', true],
  ['of no length', 'HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n', true],
])('a response %s has no body', (_what, text, hasBody) => {
  expect(read(text, { hasBody })).toMatchObject({ body: '', canContinue: true })
})

test.each([
  ['HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n', false],
  ['HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n', false],
  ['HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 0\r\n\r\n', true],
])('%j says whether the connection may continue', (text, canContinue) => {
  expect(read(text)).toMatchObject({ canContinue })
})

test('values keep bytes that look like spaces in Latin-1', () => {
  const value = Buffer.from('à la carte, à', 'utf8').toString('latin1')
  expect(read(`HTTP/1.1 200 OK\r\nA: ${value}\r\nContent-Length: 0\r\n\r\n`).headers[1]).toBe(value)
})

test('a head full of blanks is read in linear time', () => {
  const blanks = ' '.repeat(60_000)
  expect(read(`HTTP/1.1 200 OK\r\nA: b${blanks}c\r\nContent-Length: 0\r\n\r\n`).canContinue).toBe(true)
})

test.each([
  'nonsense\r\n\r\n',
  'HTTP/2 200 OK\r\n\r\n',
  'HTTP/1.1 20 OK\r\n\r\n',
  'HTTP/1.1 101 Switching Protocols\r\n\r\n',
  'HTTP/1.1 200 OK\r\nno colon\r\n\r\n',
  'HTTP/1.1 200 OK\r\nA : b\r\n\r\n',
  'HTTP/1.1 200 OK\r\nA: b\r\n folded\r\n\r\n',
  'HTTP/1.1 200 OK\r\nA: b\nC: d\r\n\r\n',
  'HTTP/1.1 200 OK\r\nA: \0\r\n\r\n',
  'HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n',
  'HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n',
  'HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n',
  'HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n',
  `${CHUNKED}x\r\n`,
  `${CHUNKED}1\r\nab\r\n`,
  `${CHUNKED}${'1'.repeat(20)}\r\n`,
  `${CHUNKED}1;${'x'.repeat(5000)}`,
  `${CHUNKED}0\r\n${'A: b\r\n'.repeat(20_000)}`,
  `HTTP/1.1 200 OK\r\nA: ${'b'.repeat(70_000)}`,
  'HTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 200 not asked for',
])('%j is refused', (text) => {
  expect(() => read(text)).toThrow()
})

test.each(['', 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n1', `${CHUNKED}1\r\na\r\n`])(
  'a connection that ends after %j has cut the response off',
  (text) => {
    expect(() => read(text, { end: true })).toThrow()
  },
)
