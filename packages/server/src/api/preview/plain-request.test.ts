import type { Socket } from 'node:net'
import { expect, test } from 'vitest'
import { parsePlainRequest } from './plain-request.ts'

const parse = (text: string) => parsePlainRequest(Buffer.from(text, 'latin1'), {} as Socket)

test('a request without a body is read as it was sent', () => {
  const found = parse(
    'GET /a?b=%20c HTTP/1.1\r\nHost: x:1\r\nX-Name:\t a b \t\r\nConnection: Keep-Alive\r\n\r\n',
  )
  expect(found).toMatchObject({ method: 'GET', url: '/a?b=%20c' })
  expect(found?.rawHeaders).toEqual(['host', 'x:1', 'x-name', 'a b', 'connection', 'Keep-Alive'])
  expect(found?.headers['x-name']).toBe('a b')
})

test('a request can be the last of its connection', () => {
  expect(parse('GET / HTTP/1.1\r\nHost: x\r\nConnection: Close\r\n\r\n')?.isLast).toBe(true)
  expect(parse('GET / HTTP/1.1\r\nHost: x\r\n\r\n')?.isLast).toBe(false)
})

test('a header with the name of an inherited property is a header', () => {
  const found = parse('GET / HTTP/1.1\r\nHost: x\r\n__proto__: a\r\nconstructor: b\r\n\r\n')
  expect(found?.rawHeaders).toEqual(['host', 'x', '__proto__', 'a', 'constructor', 'b'])
})

test.each([
  ['a method with a body', 'POST / HTTP/1.1\r\nHost: x\r\n\r\n'],
  ['a length', 'GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n'],
  ['chunks', 'GET / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n'],
  ['chunks by another name', 'GET / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding : chunked\r\n\r\n'],
  ['a name with a blank in front', 'GET / HTTP/1.1\r\nHost: x\r\n Content-Length: 5\r\n\r\n'],
  ['a folded value', 'GET / HTTP/1.1\r\nHost: x\r\nA: b\r\n c\r\n\r\n'],
  ['lines that end without a return', 'GET / HTTP/1.1\nHost: x\n\n\r\n\r\n'],
  ['a line feed in a value', 'GET / HTTP/1.1\r\nHost: x\r\nA: b\nContent-Length: 5\r\n\r\n'],
  ['a return in a value', 'GET / HTTP/1.1\r\nHost: x\r\nA: b\rContent-Length: 5\r\n\r\n'],
  ['a zero byte', 'GET / HTTP/1.1\r\nHost: x\r\nA: b\0\r\n\r\n'],
  ['a header without a name', 'GET / HTTP/1.1\r\nHost: x\r\n: b\r\n\r\n'],
  ['a line without a colon', 'GET / HTTP/1.1\r\nHost: x\r\nabc\r\n\r\n'],
  ['two hosts', 'GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n'],
  ['two keys', 'GET / HTTP/1.1\r\nHost: x\r\nAuthorization: a\r\nauthorization: b\r\n\r\n'],
  ['no host', 'GET / HTTP/1.1\r\nA: b\r\n\r\n'],
  ['an upgrade', 'GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n'],
  ['a connection that names a header', 'GET / HTTP/1.1\r\nHost: x\r\nConnection: keep-alive, x-a\r\n\r\n'],
  ['an expectation', 'GET / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n\r\n'],
  ['an older version', 'GET / HTTP/1.0\r\nHost: x\r\n\r\n'],
  ['a target with a host', 'GET http://x/ HTTP/1.1\r\nHost: x\r\n\r\n'],
  ['a target with a blank', 'GET /a b HTTP/1.1\r\nHost: x\r\n\r\n'],
  ['a target that is not ASCII', 'GET /\xe4 HTTP/1.1\r\nHost: x\r\n\r\n'],
  ['bytes behind the head', 'GET / HTTP/1.1\r\nHost: x\r\n\r\nGET /b HTTP/1.1\r\nHost: x\r\n\r\n'],
  ['an unfinished head', 'GET / HTTP/1.1\r\nHost: x\r\n'],
  ['an empty line in front', '\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n'],
  ['a large head', `GET / HTTP/1.1\r\nHost: x\r\nA: ${'b'.repeat(16 * 1024)}\r\n\r\n`],
])('Node decides about %s', (_what, text) => {
  expect(parse(text)).toBeUndefined()
})
