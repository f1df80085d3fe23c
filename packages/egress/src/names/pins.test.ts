import { describe, expect, test } from 'vitest'
import { PIN_MIN_MS, PINS_MAX, SYNTHETIC_MAX } from '../limits.ts'
import { AnswerCache } from './answer-cache.ts'
import { parseNameServer, readNameServers } from './name-servers.ts'
import { Pins } from './pins.ts'
import { isSynthetic, SyntheticAddresses } from './synthetic-addresses.ts'

describe('pins', () => {
  test('last for some minutes at least, and as long as the record otherwise', () => {
    let now = 0
    const pins = new Pins(() => now)
    pins.add('short.example', '1.1.1.1', 0)
    pins.add('long.example', '1.1.1.1', 86_400)
    now = PIN_MIN_MS - 1
    expect(pins.namesOf('1.1.1.1')).toEqual(['short.example', 'long.example'])
    now = PIN_MIN_MS
    expect(pins.namesOf('1.1.1.1')).toEqual(['long.example'])
    now = 86_400_000
    expect(pins.namesOf('1.1.1.1')).toEqual([])
    expect(pins.size).toBe(0)
  })

  test('are bounded, and the oldest go first', () => {
    const pins = new Pins()
    pins.add('kept.example', '9.9.9.9', 60)
    pins.add('first.example', '9.9.9.8', 60)
    pins.add('kept.example', '9.9.9.9', 60)
    for (let at = 0; at < PINS_MAX - 1; at++) pins.add(`n${at}.example`, '1.1.1.1', 60)
    expect(pins.size).toBe(PINS_MAX)
    expect(pins.namesOf('9.9.9.8')).toEqual([])
    expect(pins.namesOf('9.9.9.9')).toEqual(['kept.example'])
  })
})

describe('addresses that stand for names', () => {
  test('are bounded, and none is given to another name soon', () => {
    const synthetic = new SyntheticAddresses()
    const first = synthetic.addressFor('first.example')
    for (let at = 0; at < SYNTHETIC_MAX; at++) synthetic.addressFor(`n${at}.example`)
    expect(synthetic.findName(first)).toBeUndefined()
    expect(synthetic.addressFor('first.example')).not.toBe(first)
    const all = Array.from({ length: 70_000 }, (_, at) => synthetic.addressFor(`m${at}.example`))
    expect(all.every(isSynthetic)).toBe(true)
    expect(new Set(all).size).toBe(65_534)
  })
})

describe('the cache', () => {
  test('counts the time to live down, and forgets', () => {
    let now = 0
    const cache = new AnswerCache(() => now)
    cache.add('a', { rcode: 0, records: [], ttlSeconds: 9 })
    cache.add('zero', { rcode: 0, records: [], ttlSeconds: 0 })
    now = 5_000
    expect(cache.find('a')?.ttlSeconds).toBe(4)
    expect(cache.find('zero')).toBeUndefined()
    now = 9_000
    expect(cache.find('a')).toBeUndefined()
  })
})

describe('name servers of the host', () => {
  test('are read as the C library does, three at most', () => {
    const text =
      '# nameserver 9.9.9.9\nsearch a.b\nnameserver 10.0.0.1\n nameserver fe80::1%eth0\nnameserver nonsense\nnameserver ::1\nnameserver 10.0.0.2\n'
    expect(readNameServers(() => text).map(({ address }) => address)).toEqual([
      '10.0.0.1',
      'fe80::1%eth0',
      '::1',
    ])
  })

  test('are those behind systemd-resolved, which would tell of the host’s own names', () => {
    const files: Record<string, string> = {
      '/etc/resolv.conf': 'nameserver 127.0.0.53',
      '/run/systemd/resolve/resolv.conf': 'nameserver 10.0.0.1',
    }
    expect(readNameServers((path) => files[path] ?? '')).toEqual([{ address: '10.0.0.1', port: 53 }])
    expect(readNameServers((path) => (path === '/etc/resolv.conf' ? 'nameserver 127.0.0.53' : ''))).toEqual([
      { address: '127.0.0.53', port: 53 },
    ])
  })

  test.each([
    ['1.2.3.4', '1.2.3.4', 53],
    ['1.2.3.4:5353', '1.2.3.4', 5353],
    ['::1', '::1', 53],
    ['[::1]:54', '::1', 54],
  ])('%s', (text, address, port) => {
    expect(parseNameServer(text)).toEqual({ address, port })
  })

  test.each(['', 'dns.example', '1.2.3.4:99999', '[::1', '1.2.3'])('%j is none', (text) => {
    expect(parseNameServer(text)).toBeUndefined()
  })
})
