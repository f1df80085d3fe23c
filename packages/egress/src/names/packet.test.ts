import * as dns from 'dns-packet'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { a, question } from '../testing/dns-server.ts'
import { type Query, RCODE, readQuery, readUpstreamReply, writeReply } from './packet.ts'

const opt = (udpPayloadSize: number) =>
  ({ type: 'OPT', name: '.', udpPayloadSize, flags: 0, options: [] }) as unknown as dns.Answer

describe('packets', () => {
  test('a question is read, with the letters it came in', () => {
    expect(readQuery(question('ExAmple.COM', 'AAAA'))).toEqual({
      id: 4711,
      name: 'ExAmple.COM',
      type: 'AAAA',
      class: 'IN',
      ednsBytes: undefined,
    })
    expect(readQuery(question('a.b', 'A', { additionals: [opt(4096)] }))).toMatchObject({ ednsBytes: 1232 })
    expect(readQuery(question('a.b', 'A', { additionals: [opt(0)] }))).toMatchObject({ ednsBytes: 1232 })
    expect(readQuery(question('a.b', 'A', { additionals: [opt(100)] }))).toMatchObject({ ednsBytes: 512 })
  })

  test('what is no single question is refused before it is unpacked', () => {
    const many = question('a.b')
    many.writeUInt16BE(65_535, 4)
    expect(readQuery(many)).toEqual({ id: 4711, rcode: RCODE.FORMERR })
    expect(readQuery(question('a.b', 'A', { answers: [a('a.b', '1.1.1.1')] }))).toMatchObject({
      rcode: RCODE.FORMERR,
    })
    const update = question('a.b')
    update.writeUInt16BE(5 << 11, 2)
    expect(readQuery(update)).toMatchObject({ rcode: RCODE.NOTIMP })
    expect(readQuery(dns.encode({ type: 'response', id: 1, questions: [] }))).toBeUndefined()
    expect(readQuery(Buffer.alloc(11))).toBeUndefined()
  })

  test('an answer that does not fit says so, and no more', () => {
    const query = readQuery(question('a.b')) as Query
    const records = Array.from({ length: 40 }, (_, at) => a('a.b', `1.1.1.${at}`))
    const cut = dns.decode(writeReply(query, { rcode: 0, records }, 512))
    expect(cut.flag_tc).toBe(true)
    expect(cut.answers).toEqual([])
    expect(dns.decode(writeReply(query, { rcode: 0, records }, 65_535)).answers).toHaveLength(40)
  })

  test('a refusal says why to clients that speak EDNS', () => {
    const query = readQuery(question('a.b', 'A', { additionals: [opt(1232)] })) as Query
    const bytes = writeReply(
      query,
      { rcode: RCODE.REFUSED, records: [], prohibited: 'no rule allows it' },
      512,
    )
    expect(bytes.includes('no rule allows it')).toBe(true)
    expect(bytes.readUInt16BE(2) & 0xf).toBe(RCODE.REFUSED)
  })

  test('only the answer to the question counts', () => {
    const asked = { id: 7, name: 'a.b', type: 'A' }
    const answer = (packet: Partial<dns.Packet>) =>
      readUpstreamReply(
        dns.encode({
          type: 'response',
          id: 7,
          questions: [{ name: 'A.b', type: 'A', class: 'IN' }],
          answers: [a('a.b', '1.1.1.1')],
          ...packet,
        }),
        asked,
      )
    expect(answer({})?.answers).toHaveLength(1)
    expect(answer({ id: 8 })).toBeUndefined()
    expect(answer({ type: 'query' })).toBeUndefined()
    expect(answer({ questions: [] })).toBeUndefined()
    expect(answer({ questions: [{ name: 'a.c', type: 'A' }] })).toBeUndefined()
    expect(answer({ questions: [{ name: 'a.b', type: 'AAAA' }] })).toBeUndefined()
    expect(answer({ questions: [{ name: 'a.b', type: 'A', class: 'CH' }] })).toBeUndefined()
  })

  test('no bytes make the readers throw', () => {
    const bytes = fc.uint8Array({ maxLength: 600 })
    const mutated = fc
      .tuple(bytes, fc.array(fc.tuple(fc.nat(60), fc.nat(255)), { maxLength: 8 }))
      .map(([tail, changes]) => {
        const packet = Buffer.concat([question('www.example.com', 'MX', { additionals: [opt(1232)] }), tail])
        for (const [at, byte] of changes) packet[at] = byte
        return packet
      })
    fc.assert(
      fc.property(
        fc.oneof(
          bytes.map((some) => Buffer.from(some)),
          mutated,
        ),
        (packet) => {
          readQuery(packet)
          const response = Buffer.from(packet)
          if (response.length > 3) response[2] = 0x80
          readUpstreamReply(response, { id: 4711, name: 'www.example.com', type: 'MX' })
        },
      ),
      { numRuns: 3000 },
    )
  })

  test('looking up a name that points to itself, or back and forth, ends', () => {
    for (const pointers of [[12], [14, 12]]) {
      const packet = Buffer.alloc(12 + pointers.length * 2 + 4)
      packet.writeUInt16BE(1, 4)
      pointers.forEach((to, at) => {
        packet.writeUInt16BE(0xc000 | to, 12 + at * 2)
      })
      expect(readQuery(packet)).toMatchObject({ rcode: RCODE.FORMERR })
    }
  })
})
