import { describe, expect, test } from 'vitest'
import { allowRuleProblem, denyRuleProblem, parseAllowRule } from './allow-rule.ts'

describe('a rule of what may be reached', () => {
  test.each([
    ['example.com', { domain: 'example.com' }],
    ['Example.COM.', { domain: 'example.com' }],
    ['*.example.com:443', { domain: '*.example.com', ports: [443] }],
    ['_sip._tcp.example.com', { domain: '_sip._tcp.example.com' }],
    ['xn--bcher-kva.example:80,443,80', { domain: 'xn--bcher-kva.example', ports: [80, 443] }],
    ['mirror', { domain: 'mirror' }],
    ['203.0.113.7', { cidr: '203.0.113.7/32' }],
    ['203.0.113.0/24:5432,5433', { cidr: '203.0.113.0/24', ports: [5432, 5433] }],
    ['2001:DB8::1', { cidr: '2001:db8::1/128' }],
    ['2001:db8::/32', { cidr: '2001:db8::/32' }],
    ['[2001:db8::/32]:80,443', { cidr: '2001:db8::/32', ports: [80, 443] }],
  ])('%s is read', (text, rule) => {
    expect(allowRuleProblem(text)).toBeUndefined()
    expect(parseAllowRule(text)).toEqual(rule)
  })

  test.each([
    ['', 'host name'],
    ['*', '`public`'],
    ['*.*.com', 'host name'],
    ['a*.example.com', 'host name'],
    ['https://example.com', 'ports'],
    ['example.com/path', 'range'],
    ['example.com:', 'ports'],
    ['example.com:0', 'ports'],
    ['example.com:65536', 'ports'],
    ['example.com:80-90', 'ports'],
    ['exa mple.com', 'host name'],
    ['bücher.example', 'host name'],
    ['127.1', 'address'],
    ['2130706433', 'address'],
    ['0x7f.1', 'address'],
    ['example.0x7f000001', 'address'],
    ['203.0.113.0/33', 'range'],
    ['[example.com]:80', 'IPv6'],
    ['2001:db8::1:443/x', 'ports'],
    [`${'a'.repeat(64)}.com`, 'host name'],
    [`example.com:${Array.from({ length: 65 }, (_, at) => at + 1).join(',')}`, 'more than 64'],
  ])('%j is refused, with the reason', (text, reason) => {
    expect(denyRuleProblem(text)).toContain(reason)
    expect(allowRuleProblem(text)).toContain(reason)
    expect(() => parseAllowRule(text)).toThrow()
  })

  test('denies addresses and ranges only', () => {
    expect(denyRuleProblem('203.0.113.0/24:443')).toBeUndefined()
    expect(denyRuleProblem('example.com')).toContain('address or a range')
  })
})
