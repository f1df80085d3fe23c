import { randomBytes, randomInt } from 'node:crypto'
import * as dns from 'dns-packet'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { QUESTIONS_MAX_IN_FLIGHT, QUESTIONS_MAX_QUEUED } from '../limits.ts'
import { CompiledPolicy } from '../policy/compiled-policy.ts'
import type { EgressPolicy } from '../policy/egress-policy.ts'
import { HostNetwork } from '../policy/host-network.ts'
import { a, aaaa, cname, DnsServer, question, reply } from '../testing/dns-server.ts'
import { Pins } from './pins.ts'
import { Resolver } from './resolver.ts'
import { SyntheticAddresses } from './synthetic-addresses.ts'
import { Upstream } from './upstream.ts'

let server: DnsServer
let pins: Pins
let denied: { name: string; address?: string; reason: string }[]
let failed: { name: string; reason: string }[]
let policy: EgressPolicy
let hasIpv6: boolean
let isResolvedByProxy: boolean
const hostNetwork = new HostNetwork({
  registries: [{ host: 'localhost', port: 80 }],
  reachable: ['10.1.0.0/16'],
  isHostAddress: (address) => address === '198.41.0.4',
})

beforeEach(async () => {
  server = await DnsServer.start(() => ({ rcode: 3 }))
  pins = new Pins()
  denied = []
  failed = []
  hasIpv6 = true
  isResolvedByProxy = false
  policy = { mode: 'public', allow: [], secrets: [] }
})
afterEach(() => server.close())

function resolver(options: { resolvers?: string[]; timeoutMs?: number } = {}): Resolver {
  return new Resolver({
    sources: {
      upstream: new Upstream({ resolvers: [server.address], timeoutMs: 300, ...options }),
      isRegistry: (name) => hostNetwork.isRegistry(name),
      isResolvedByProxy: () => isResolvedByProxy,
      hasIpv6: async () => hasIpv6,
    },
    policy: () => new CompiledPolicy(policy, hostNetwork),
    pins,
    synthetic: new SyntheticAddresses(),
    onQuery: () => {},
    onDenial: (one) => denied.push(one),
    onFailure: (one) => failed.push(one),
  })
}

async function ask(from: Resolver, name: string, type = 'A', transport: 'udp' | 'tcp' = 'udp') {
  const bytes = await from.answer(question(name, type), transport)
  const packet = dns.decode(bytes!)
  return {
    rcode: bytes!.readUInt16BE(2) & 0xf,
    isTruncated: packet.flag_tc,
    name: packet.questions?.[0]?.name,
    data: packet.answers?.map((record) => ('data' in record ? record.data : undefined)) ?? [],
  }
}

describe('a resolver', () => {
  test('passes an answer on, pins it, and knows it when asked again', async () => {
    server.say = () => ({ answers: [a('example.com', '1.2.3.4')] })
    const one = resolver()
    expect(await ask(one, 'Example.COM')).toMatchObject({ rcode: 0, name: 'Example.COM', data: ['1.2.3.4'] })
    expect(await ask(one, 'example.com.')).toMatchObject({ data: ['1.2.3.4'] })
    expect(pins.namesOf('1.2.3.4')).toEqual(['example.com'])
    expect(server.asked).toEqual([{ name: 'example.com', type: 'A', transport: 'udp' }])
  })

  test('hides addresses that are not public, and says that it did', async () => {
    server.say = () => ({
      answers: ['1.2.3.4', '10.0.0.1', '127.0.0.1', '169.254.169.254', '198.41.0.4', '10.1.0.1'].map(
        (address) => a('rebind.example', address),
      ),
    })
    expect(await ask(resolver(), 'rebind.example')).toMatchObject({ data: ['1.2.3.4'] })
    expect(denied.map(({ address }) => address)).toEqual([
      '10.0.0.1',
      '127.0.0.1',
      '169.254.169.254',
      '198.41.0.4',
      '10.1.0.1',
    ])
    expect(pins.namesOf('10.0.0.1')).toEqual([])
  })

  test('hides them in every form that IPv6 has for them', async () => {
    server.say = () => ({
      answers: [
        '::ffff:10.0.0.1',
        '64:ff9b::a00:1',
        '::1',
        'fd00:ec2::254',
        '2002:a00:1::',
        '::10.0.0.1',
        'fe80::1',
        '2600::1',
      ].map((address) => aaaa('rebind.example', address)),
    })
    expect(await ask(resolver(), 'rebind.example', 'AAAA')).toMatchObject({ data: ['2600::1'] })
    expect(denied).toHaveLength(7)
  })

  test('follows other names of a name, and tells nothing of a chain that ends at a private address', async () => {
    server.say = ({ name }) =>
      name === 'good.example'
        ? {
            answers: [
              cname('good.example', 'cdn.example'),
              cname('cdn.example', 'edge.example'),
              a('edge.example', '1.2.3.4'),
            ],
          }
        : { answers: [cname('bad.example', 'db.corp.example'), a('db.corp.example', '10.0.0.5')] }
    const one = resolver()
    expect((await ask(one, 'good.example')).data).toEqual(['cdn.example', 'edge.example', '1.2.3.4'])
    expect(pins.namesOf('1.2.3.4')).toEqual(['good.example'])
    expect(await ask(one, 'bad.example')).toMatchObject({ rcode: 0, data: [] })
    expect(denied).toMatchObject([{ name: 'bad.example', address: '10.0.0.5' }])
  })

  test('believes nothing about names it did not ask for, and ends in loops', async () => {
    server.say = () => ({
      answers: [
        a('other.example', '9.9.9.9'),
        cname('loop.example', 'b.example'),
        cname('b.example', 'loop.example'),
        a('b.example', '1.2.3.4'),
      ],
    })
    expect((await ask(resolver(), 'loop.example')).data).toEqual(['b.example', 'loop.example', '1.2.3.4'])
    expect(pins.namesOf('9.9.9.9')).toEqual([])
  })

  test('takes a flood of addresses up to a number', async () => {
    server.say = ({ transport }) =>
      transport === 'udp'
        ? { truncated: true }
        : {
            answers: Array.from({ length: 2000 }, (_, at) =>
              a('flood.example', `1.2.${at >> 8}.${at & 255}`),
            ),
          }
    const { data } = await ask(resolver(), 'flood.example', 'A', 'tcp')
    expect(data).toHaveLength(64)
    expect(pins.size).toBe(64)
    expect(server.asked.map(({ transport }) => transport)).toEqual(['udp', 'tcp'])
  })

  test('does not tell addresses to which there is no way', async () => {
    hasIpv6 = false
    server.say = () => ({ answers: [aaaa('example.com', '2600::1')] })
    expect(await ask(resolver(), 'example.com', 'AAAA')).toMatchObject({ rcode: 0, data: [] })
    expect(denied).toEqual([])
  })

  test('sends no question about names that no rule covers', async () => {
    policy = { mode: 'allow', allow: [{ domain: '*.example.com' }], secrets: [] }
    server.say = ({ name }) => ({ answers: [a(name, '1.2.3.4')] })
    const one = resolver()
    expect(await ask(one, 'a.example.com')).toMatchObject({ rcode: 0 })
    for (const name of ['example.com', 'evil.net', 'a.example.com.evil.net']) {
      expect(await ask(one, name)).toMatchObject({ rcode: 5, data: [] })
    }
    policy = { mode: 'none', allow: [], secrets: [] }
    expect(await ask(one, 'a.example.com')).toMatchObject({ rcode: 5 })
    expect(server.asked.map(({ name }) => name)).toEqual(['a.example.com'])
    expect(denied.map(({ name }) => name)).toEqual([
      'example.com',
      'evil.net',
      'a.example.com.evil.net',
      'a.example.com',
    ])
  })

  test('a policy that changes while a question is under way counts for its answer', async () => {
    server.say = () => {
      policy = { mode: 'none', allow: [], secrets: [] }
      return { answers: [a('example.com', '1.2.3.4')] }
    }
    expect(await ask(resolver(), 'example.com')).toMatchObject({ rcode: 5, data: [] })
    expect(pins.namesOf('1.2.3.4')).toEqual([])
  })

  test('waits for the real answer when another host guesses', async () => {
    server.say = () => ({
      raw: (packet) => [
        reply({ ...packet, id: ((packet.id ?? 0) + 1) & 0xffff }, { answers: [a('example.com', '6.6.6.6')] }),
        reply(
          { ...packet, questions: [{ name: 'evil.net', type: 'A' }] },
          { answers: [a('example.com', '6.6.6.6')] },
        ),
        Buffer.from('not even a packet'),
        reply(packet, { answers: [a('example.com', '1.2.3.4')] }),
      ],
    })
    expect((await ask(resolver(), 'example.com')).data).toEqual(['1.2.3.4'])
  })

  test('answers, and continues, whatever a name server says', async () => {
    server.say = ({ name }) => ({
      raw: (packet) => {
        const bytes = reply(packet, {
          answers: [
            cname(name, 'b.example'),
            a('b.example', '1.2.3.4'),
            { type: 'TXT', name, data: [randomBytes(40)] },
          ],
        })
        // Id and question stay as they are, so that it counts as the answer; the rest is anything.
        for (let at = 0; at < 6; at++) bytes[randomInt(40, bytes.length)] = randomInt(256)
        bytes.writeUInt16BE(randomInt(6), 6)
        return [bytes]
      },
    })
    const one = resolver({ timeoutMs: 50 })
    const types = ['A', 'AAAA', 'TXT', 'MX', 'SRV', 'SOA', 'NAPTR', 'RRSIG', 'CAA', 'UNKNOWN_999']
    for (let round = 0; round < 20; round++) {
      const asked = types.map((type, at) => one.answer(question(`fuzz-${round}-${at}.example`, type), 'udp'))
      for (const answer of await Promise.all(asked))
        expect([0, 2, 3]).toContain(answer!.readUInt16BE(2) & 0xf)
    }
    expect(pins.namesOf('10.0.0.1')).toEqual([])
  })

  test('asks the next server when one is silent or fails, and fails when all do', async () => {
    const next = await DnsServer.start(() => ({ answers: [a('example.com', '1.2.3.4')] }))
    server.say = () => ({ rcode: 2 })
    expect((await ask(resolver({ resolvers: [server.address, next.address] }), 'example.com')).data).toEqual([
      '1.2.3.4',
    ])
    server.say = () => 'nothing'
    expect((await ask(resolver({ resolvers: [server.address, next.address] }), 'example.com')).data).toEqual([
      '1.2.3.4',
    ])
    await next.close()
    expect((await ask(resolver({ timeoutMs: 50 }), 'example.com')).rcode).toBe(2)
    expect((await ask(resolver({ resolvers: [] }), 'example.com')).rcode).toBe(2)
    expect(failed).toEqual(Array(2).fill({ name: 'example.com', reason: 'no name server answered' }))
  })

  test('says why a name has no address', async () => {
    const one = resolver()
    await ask(one, 'Absent.example')
    await ask(one, 'absent.example', 'AAAA')
    await ask(one, 'nas.local')
    server.say = ({ name, type }) => ({
      answers: name === 'six.example' && type === 'AAAA' ? [aaaa(name, '2600::1')] : [],
    })
    await ask(one, 'mail.example')
    await expect.poll(() => failed).toHaveLength(4)
    hasIpv6 = false
    await ask(one, 'six.example')
    await expect.poll(() => failed).toHaveLength(5)
    expect(failed).toEqual([
      { name: 'absent.example', reason: 'the name does not exist' },
      { name: 'absent.example', reason: 'the name does not exist' },
      { name: 'nas.local', reason: 'a local name, and a sandbox sees no local network' },
      { name: 'mail.example', reason: 'the name has no address' },
      { name: 'six.example', reason: 'the name has only IPv6 addresses, and this host has no IPv6' },
    ])
  })

  test('calls no look-up failed that gave an address, was refused, or asked for something else', async () => {
    const one = resolver()
    await ask(one, '_http._tcp.absent.example', 'SRV')
    server.say = ({ name, type }) => ({
      answers:
        name === 'six.example'
          ? type === 'AAAA'
            ? [aaaa(name, '2600::1')]
            : []
          : type === 'A'
            ? [a(name, name === 'four.example' ? '1.2.3.4' : '10.0.0.1')]
            : [],
    })
    for (const name of ['six.example', 'four.example', 'private.example'])
      for (const type of ['A', 'AAAA']) await ask(one, name, type)
    policy = { mode: 'none', allow: [], secrets: [] }
    await ask(one, 'off.example')
    await new Promise((resolve) => setImmediate(resolve))
    expect(failed).toEqual([])
  })

  test('asks once for many equal questions, and refuses more than its bound', async () => {
    server.say = () => 'nothing'
    const one = resolver({ timeoutMs: 100 })
    const same = Array.from({ length: 50 }, () => ask(one, 'same.example'))
    const many = QUESTIONS_MAX_IN_FLIGHT + QUESTIONS_MAX_QUEUED
    const answered: number[] = []
    const different = Array.from({ length: many + 40 }, (_, at) =>
      ask(one, `n${at}.example`).then(({ rcode }) => answered.push(rcode)),
    )
    // Refused questions are answered without I/O, before the event loop turns.
    await new Promise((resolve) => setImmediate(resolve))
    expect(answered).toHaveLength(41)
    expect(failed).toHaveLength(41)
    expect(failed[0]).toMatchObject({ reason: 'too many look-ups at once' })
    await Promise.all([...same, ...different])
    expect(server.asked.filter(({ name }) => name === 'same.example')).toHaveLength(2)
  })

  test('names that nothing public can have do not exist, and no server is asked', async () => {
    const one = resolver()
    for (const name of ['printer', 'metadata.google.internal', 'nas.local', '1.0.0.10.in-addr.arpa']) {
      expect(await ask(one, name)).toMatchObject({ rcode: 3 })
    }
    expect(server.asked).toEqual([])
    expect(denied).toEqual([])
  })

  test('registries are looked up as the host does it, and loopback is no place for one', async () => {
    expect(await ask(resolver(), 'localhost')).toMatchObject({ rcode: 0, data: [] })
    expect(server.asked).toEqual([])
    expect(denied).toMatchObject([{ name: 'localhost', address: '127.0.0.1' }])
  })

  test.each(['AXFR', 'IXFR', 'ANY'])('%s is not for sandboxes', async (type) => {
    expect(await ask(resolver(), 'example.com', type)).toMatchObject({ rcode: 4 })
  })

  test.each([64, 65])('type %d, which would lead past the pins, is not told', async (type) => {
    expect(await ask(resolver(), 'example.com', `UNKNOWN_${type}`)).toMatchObject({ rcode: 0, data: [] })
    expect(server.asked).toEqual([])
  })

  test('text, mail and service records pass', async () => {
    server.say = ({ name, type }) => ({
      answers: [
        type === 'TXT'
          ? { type: 'TXT', name, ttl: 60, data: [Buffer.from('hello')] }
          : { type: 'MX', name, ttl: 60, data: { preference: 5, exchange: 'mail.example' } },
      ],
    })
    const one = resolver()
    expect((await ask(one, 'example.com', 'TXT')).data).toEqual([[Buffer.from('hello')]])
    expect((await ask(one, 'example.com', 'MX')).data).toEqual([{ preference: 5, exchange: 'mail.example' }])
  })

  test.each(['exam\u212Ale.com', 'a b.example', 'a\0b.example'])('%j is no name', async (name) => {
    const bytes = await resolver().answer(question(name), 'udp')
    expect(bytes!.readUInt16BE(2) & 0xf).toBe(5)
    expect(server.asked).toEqual([])
  })

  test('a name that is left to the proxy gets an address that stands for it', async () => {
    isResolvedByProxy = true
    const one = resolver()
    expect(await ask(one, 'example.com')).toMatchObject({ rcode: 0, data: ['198.19.0.1'] })
    expect(await ask(one, 'example.org')).toMatchObject({ data: ['198.19.0.2'] })
    expect(await ask(one, 'example.com')).toMatchObject({ data: ['198.19.0.1'] })
    expect(await ask(one, 'example.com', 'AAAA')).toMatchObject({ rcode: 0, data: [] })
    policy = { mode: 'allow', allow: [], secrets: [] }
    expect(await ask(one, 'example.com')).toMatchObject({ rcode: 5 })
  })
})
