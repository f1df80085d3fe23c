import { describe, expect, test } from 'vitest'
import { covers, normalizeName, normalizePattern } from './domain-name.ts'
import { isSpecialName } from './special-names.ts'

describe('names', () => {
  test.each([
    ['Example.COM', 'example.com'],
    ['example.com.', 'example.com'],
    ['_dmarc.example.com', '_dmarc.example.com'],
    ['xn--bcher-kva.example', 'xn--bcher-kva.example'],
    ['a', 'a'],
  ])('%s is %s', (text, name) => {
    expect(normalizeName(text)).toBe(name)
  })

  test.each([
    '',
    '.',
    '..',
    'a..b',
    '.a',
    'a b',
    'exam\u212Ale.com',
    'bücher.example',
    'a\0.example.com',
    'a/b',
    'example.com..',
    `${'a'.repeat(64)}.com`,
    Array.from({ length: 128 }, () => 'a').join('.'),
    'a:b',
    '*.example.com',
  ])('%j is none', (text) => {
    expect(normalizeName(text)).toBeUndefined()
  })

  test.each([
    ['*.Bücher.example.', '*.xn--bcher-kva.example'],
    ['BÜCHER.example', 'xn--bcher-kva.example'],
    ['*.example.com', '*.example.com'],
  ])('the pattern %s is %s', (text, pattern) => {
    expect(normalizePattern(text)).toBe(pattern)
  })

  test.each(['*', '*.', '*.*.com', 'a.*.com', '', ' '])('the pattern %j is none', (text) => {
    expect(normalizePattern(text)).toBeUndefined()
  })

  test.each([
    ['example.com', 'example.com', true],
    ['example.com', 'a.example.com', false],
    ['example.com', 'notexample.com', false],
    ['*.example.com', 'example.com', false],
    ['*.example.com', 'a.example.com', true],
    ['*.example.com', 'a.b.example.com', true],
    ['*.example.com', 'notexample.com', false],
    ['*.example.com', 'example.com.evil.net', false],
    ['*.example.com', '.example.com', false],
  ])('%s covers %s: %s', (pattern, name, expected) => {
    expect(covers(pattern, name)).toBe(expected)
  })

  test.each([
    'router',
    'printer.local',
    'metadata.google.internal',
    'x.localhost',
    'nas.lan',
    'a.home.arpa',
    '1.0.0.10.in-addr.arpa',
    '1.0.0.127.in-addr.arpa',
    '254.169.254.169.in-addr.arpa',
    '10.in-addr.arpa',
    `${'1.'.padEnd(62, '0.')}e.f.ip6.arpa`,
  ])('%s is of local networks', (name) => {
    expect(isSpecialName(name)).toBe(true)
  })

  test.each([
    'example.com',
    'local.example.com',
    '8.8.8.8.in-addr.arpa',
    `${'8.'.repeat(28)}0.0.6.2.ip6.arpa`,
  ])('%s is not', (name) => {
    expect(isSpecialName(name)).toBe(false)
  })
})
