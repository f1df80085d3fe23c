import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { canonicalAddress, edgesOf, isInRange, parseAddress, parseRange } from './address.ts'
import { classOf } from './address-class.ts'

const reachOf = (text: string) => classOf(parseAddress(text)!).reach

describe('addresses', () => {
  test.each([
    '1.1.1.1',
    '11.0.0.1',
    '8.8.8.8',
    '172.15.255.255',
    '172.32.0.0',
    '192.167.255.255',
    '100.63.255.255',
    '100.128.0.0',
    '126.255.255.255',
    '128.0.0.0',
    '223.255.255.255',
    '169.253.255.255',
    '2600::1',
    '2a00:1450::8',
    '::ffff:8.8.8.8',
    '64:ff9b::8.8.8.8',
  ])('%s is public', (text) => {
    expect(reachOf(text)).toBe('public')
  })

  test.each([
    '10.0.0.0',
    '10.255.255.255',
    '172.16.0.0',
    '172.31.255.255',
    '192.168.0.0',
    '192.168.255.255',
    '::ffff:10.1.2.3',
    '100.64.0.0',
    '100.127.255.255',
    '192.0.0.1',
    '192.0.2.1',
    '198.18.0.1',
    '198.19.255.255',
    '198.51.100.1',
    '203.0.113.1',
    '240.0.0.1',
    '192.88.99.1',
    'fc00::1',
    'fdff::1',
    'fec0::1',
    '2001:db8::1',
    '2001:2::1',
    '2001:10::1',
    '2001:20::1',
    '3fff::1',
    '4000::1',
    '64:ff9b:1::10.0.0.1',
    '5f00::1',
  ])('%s is closed unless the operator opens it', (text) => {
    expect(reachOf(text)).toBe('private')
  })

  test.each([
    '0.0.0.0',
    '0.1.2.3',
    '127.0.0.1',
    '127.255.255.255',
    '169.254.0.0',
    '169.254.169.254',
    '169.254.255.255',
    '224.0.0.1',
    '239.255.255.255',
    '255.255.255.255',
    '100.100.100.200',
    '192.0.0.192',
    '168.63.129.16',
    '::ffff:168.63.129.16',
    '64:ff9b::168.63.129.16',
    'fd00:42::42',
    'fd00:a9fe:a9fe::1',
    '::',
    '::1',
    'fe80::1',
    'febf::1',
    'ff02::1',
    'fd00:ec2::254',
    'fd20:ce::254',
    '100::1',
    '::ffff:127.0.0.1',
    '::ffff:7f00:1',
    '0:0:0:0:0:ffff:a9fe:a9fe',
    '::127.0.0.1',
    '::10.0.0.1',
    '::8.8.8.8',
    '::ffff:0:127.0.0.1',
    '64:ff9b::127.0.0.1',
    '64:ff9b::10.0.0.1',
    '64:ff9b::a9fe:a9fe',
    '64:ff9b::192.168.1.1',
    '64:ff9b::100.64.0.1',
    '2002:7f00:1::',
    '2002:a00:1::1',
    '2002:808:808::1',
    '2001:0:4136:e378:8000:63bf:3fff:fdd2',
    '2001::1',
  ])('%s is never reached', (text) => {
    expect(reachOf(text)).toBe('forbidden')
  })

  test.each([
    '',
    '127.1',
    '0x7f000001',
    '2130706433',
    '0177.0.0.1',
    '127.0.0.1 ',
    '1.2.3.4.5',
    '1.2.3.256',
    'fe80::1%lo',
    '[::1]',
    'localhost',
    ':::',
    '::ffff:127.1',
  ])('%j is not an address', (text) => {
    expect(parseAddress(text)).toBeUndefined()
  })

  test('every IPv4 address has the same class in IPv6 clothes, and behind a translator no better one', () => {
    fc.assert(
      fc.property(fc.ipV4(), (text) => {
        expect(canonicalAddress(`::ffff:${text}`)).toBe(text)
        if (reachOf(text) !== 'public') expect(reachOf(`64:ff9b::${text}`)).toBe('forbidden')
        expect(reachOf(`::${text}`)).toBe('forbidden')
      }),
    )
  })

  test('each address has one spelling', () => {
    fc.assert(
      fc.property(fc.ipV6(), (text) => {
        const canonical = canonicalAddress(text)!
        expect(canonicalAddress(canonical)).toBe(canonical)
        expect(canonicalAddress(text.toUpperCase())).toBe(canonical)
      }),
    )
  })

  test('the edges of a range are in it, and one further is not', () => {
    expect(edgesOf(parseRange('203.0.113.77/26')!).map(String)).toEqual(['203.0.113.64', '203.0.113.127'])
    expect(edgesOf(parseRange('2001:db8::5/33')!).map(String)).toEqual([
      '2001:db8::',
      '2001:db8:7fff:ffff:ffff:ffff:ffff:ffff',
    ])
    expect(edgesOf(parseRange('0.0.0.0/0')!).map(String)).toEqual(['0.0.0.0', '255.255.255.255'])
    expect(isInRange(parseAddress('203.0.113.128')!, parseRange('203.0.113.77/26')!)).toBe(false)
    expect(isInRange(parseAddress('::1')!, parseRange('0.0.0.0/0')!)).toBe(false)
    expect(parseRange('::ffff:10.0.0.0/104')!.map(String)).toEqual(['10.0.0.0', '8'])
  })

  test.each([
    '10.0.0.0/33',
    '10.0.0.0/',
    '10.0.0.0/-1',
    '10.0.0.0/8/8',
    '::/129',
    '10.0/8',
    '::ffff:10.0.0.0/8',
    '/8',
    '',
  ])('%j is no range', (text) => {
    expect(parseRange(text)).toBeUndefined()
  })
})
