import fc from 'fast-check'
import { beforeAll, describe, expect, test } from 'vitest'
import { clientHello } from '../testing/client-hello.ts'
import { readFirstMessage } from './first-message.ts'

/** The same handshake in records of a few bytes each. */
function inRecords(hello: Buffer, size: number): Buffer {
  const handshake = hello.subarray(5)
  const parts: Buffer[] = []
  for (let at = 0; at < handshake.length; at += size) {
    const part = handshake.subarray(at, at + size)
    parts.push(Buffer.from([0x16, 3, 1, part.length >> 8, part.length & 0xff]), part)
  }
  return Buffer.concat(parts)
}

let hello: Buffer
beforeAll(async () => {
  hello = await clientHello('Example.com')
})

describe('an message of TLS', () => {
  test('names the server, whole, byte by byte, and in small records', () => {
    const expected = { kind: 'tls', name: 'example.com' }
    expect(readFirstMessage(hello)).toEqual(expected)
    for (let length = 1; length < hello.length; length++)
      expect(readFirstMessage(hello.subarray(0, length))).toBeUndefined()
    for (const size of [1, 7, 100]) expect(readFirstMessage(inRecords(hello, size))).toEqual(expected)
  })

  test('without a name, or with two, has no name', async () => {
    expect(readFirstMessage(await clientHello(undefined))).toEqual({
      ...{ kind: 'tls', name: undefined, isNameless: true, problem: 'TLS without a name (no SNI)' },
    })
    const at = hello.indexOf('Example.com')
    const twice = Buffer.from(hello)
    // Another extension behind it becomes a second server name.
    const next = at + 'Example.com'.length
    twice.writeUInt16BE(0, next)
    expect(readFirstMessage(twice)).toMatchObject({
      kind: 'tls',
      name: undefined,
      problem: expect.any(String),
    })
    expect(readFirstMessage(twice)).not.toHaveProperty('isNameless')
  })

  test('that is encrypted, or has a decoy in its place, is known as such', () => {
    for (const type of [0xfe0d, 0xffce]) {
      const hidden = Buffer.from(hello)
      hidden.writeUInt16BE(type, hidden.indexOf('Example.com') + 'Example.com'.length)
      expect(readFirstMessage(hidden)).toMatchObject({
        kind: 'tls',
        name: 'example.com',
        problem: expect.stringContaining('encrypted ClientHello'),
      })
    }
  })

  test('that is broken has no name, and is not taken for something else', () => {
    const broken = { kind: 'tls', name: undefined, problem: 'TLS without a name that can be read' }
    expect(readFirstMessage(Buffer.from([0x16, 3, 1, 0, 0, 1, 2, 3]))).toEqual(broken)
    expect(readFirstMessage(Buffer.from([0x16, 9, 1, 0, 4, 1, 0, 0, 0]))).toEqual(broken)
    expect(
      readFirstMessage(
        Buffer.concat([Buffer.from([0x16, 3, 1, 0xff, 0xff, 1, 0xff, 0xff, 0xff]), Buffer.alloc(40_000)]),
      ),
    ).toEqual(broken)
  })
})

describe('an message of HTTP', () => {
  test.each([
    ['GET / HTTP/1.1\r\nHost: Example.com\r\n\r\n', 'example.com'],
    ['GET / HTTP/1.1\nHost: example.com:8080\n\n', 'example.com'],
    ['\r\nGET / HTTP/1.1\r\nAccept: */*\r\nhost:example.com.\r\n\r\nbody', 'example.com'],
    ['GET http://example.com/a HTTP/1.1\r\nHost: example.com\r\n\r\n', 'example.com'],
    ['OPTIONS * HTTP/1.1\r\nHost: example.com\r\n\r\n', 'example.com'],
    ['CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n', 'example.com'],
    ['GET http://evil.net/ HTTP/1.1\r\nHost: example.com\r\n\r\n', undefined],
    ['CONNECT evil.net:443 HTTP/1.1\r\nHost: example.com\r\n\r\n', undefined],
    ['GET / HTTP/1.1\r\nHost: example.com\r\nHost: evil.net\r\n\r\n', undefined],
    ['GET / HTTP/1.1\r\nHost : evil.net\r\nHost: example.com\r\n\r\n', undefined],
    ['GET / HTTP/1.1\r\nHost: example.com\r\n evil.net\r\n\r\n', undefined],
    ['GET / HTTP/1.1\r\nHost: user@evil.net\r\n\r\n', undefined],
    ['GET / HTTP/1.1\r\nHost: 1.2.3.4\r\n\r\n', '1.2.3.4'],
    ['GET / HTTP/1.1\r\nHost: [FD00:0::1]:80\r\n\r\n', 'fd00::1'],
    ['GET / HTTP/1.1\r\nHost: [::1\r\n\r\n', undefined],
    ['GET / HTTP/1.1\r\nHost: [example.com]\r\n\r\n', undefined],
    ['GET /\r\n', undefined],
    ['GET / HTTP/1.1\r\nHost:\r\n\r\n', undefined],
    ['GET / HTTP/1.0\r\n\r\n', undefined],
    ['GET  / HTTP/1.1\r\nHost: example.com\r\n\r\n', undefined],
    ['GET\t/\tHTTP/1.1\r\nHost: example.com\r\n\r\n', undefined],
    ['get / http/1.1\r\nHost: example.com\r\n\r\n', undefined],
    ['PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', undefined],
  ])('%j is for %s', (text, name) => {
    expect(readFirstMessage(Buffer.from(text))).toMatchObject({ kind: 'http', name })
  })

  test('is waited for until its head is whole', () => {
    const text = 'POST /a?b=c HTTP/1.1\r\nHost: example.com\r\n\r\n'
    for (let length = 1; length < text.length; length++)
      expect(readFirstMessage(Buffer.from(text.slice(0, length)))).toBeUndefined()
  })

  test('that never ends has no name', () => {
    expect(readFirstMessage(Buffer.from(`GET / HTTP/1.1\r\nX: ${'x'.repeat(40_000)}`))).toMatchObject({
      kind: 'http',
      name: undefined,
    })
  })
})

describe('other openings', () => {
  test.each([
    'SSH-2.0-OpenSSH_9.9\r\n',
    'PING\r\n',
    '*1\r\n$4\r\nPING\r\n',
    'EHLO there\r\n',
    'GET key\r\n',
    'AMQP\0\0\x09\x01',
    '\0\0\0\x08\x04\xd2\x16\x2f',
    '{"jsonrpc": "2.0"',
  ])('%j pass at once', (text) => {
    expect(readFirstMessage(Buffer.from(text, 'latin1'))).toEqual({ kind: 'other' })
  })

  test('no bytes make it throw, and what begins like TLS is never taken for another protocol', () => {
    const changed = fc.array(fc.tuple(fc.nat(1000), fc.nat(255)), { maxLength: 10 }).map((changes) => {
      const bytes = Buffer.from(hello)
      for (const [at, byte] of changes) if (at > 0 && at < bytes.length) bytes[at] = byte
      return bytes
    })
    const noise = fc.uint8Array({ maxLength: 300 }).map((bytes) => Buffer.from(bytes))
    fc.assert(
      fc.property(fc.oneof(changed, noise), (bytes) => {
        const message = readFirstMessage(bytes)
        if (bytes[0] === 0x16) expect(message?.kind).not.toBe('other')
      }),
      { numRuns: 3000 },
    )
  })
})
