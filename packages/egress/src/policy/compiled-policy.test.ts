import type { AllowRule } from '@dormouse/contracts'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { checkRules } from './check-rules.ts'
import { CompiledPolicy } from './compiled-policy.ts'
import type { EgressPolicy } from './egress-policy.ts'
import { HostNetwork } from './host-network.ts'

const hostNetwork = new HostNetwork({
  registries: [
    { host: 'Mirror.Corp.example', port: 4873 },
    { host: '10.9.9.9', port: 3141 },
  ],
  reachable: ['10.1.0.0/16', 'fd01::/16'],
  isHostAddress: (address) => ['198.41.0.4', '10.1.0.5', '10.9.9.9', '2600::5'].includes(address),
})

const compile = (mode: EgressPolicy['mode'], allow: AllowRule[] = []) =>
  new CompiledPolicy({ mode, allow, secrets: [] }, hostNetwork)

describe('mode none', () => {
  const none = compile('none', [{ domain: 'example.com' }, { cidr: '0.0.0.0/0' }])
  test('reaches nothing, by name, by address, or as a registry', () => {
    expect(none.lookUp('example.com').allowed).toBe(false)
    expect(none.connect('1.1.1.1', 443, ['example.com']).allowed).toBe(false)
    expect(none.connect('10.9.9.9', 3141, []).allowed).toBe(false)
    expect(none.ask('example.com', 443, '1.1.1.1').allowed).toBe(false)
  })
})

describe('mode public with denied ranges', () => {
  const deny = [{ cidr: '8.8.8.0/24' }, { cidr: '9.9.9.9', ports: [53] }]
  const allow = [{ cidr: '8.8.8.1' }, { domain: 'open.example' }]
  const policy = new CompiledPolicy({ mode: 'public', allow, deny, secrets: [] }, hostNetwork)
  test.each([
    ['1.1.1.1', 443, [], true],
    ['8.8.8.8', 443, [], false],
    ['8.8.8.8', 443, ['closed.example'], false],
    ['::ffff:8.8.8.8', 443, [], false],
    ['64:ff9b::8.8.8.8', 443, [], false], // the same, behind a translator
    ['8.8.8.1', 443, [], true],
    ['8.8.8.8', 443, ['open.example'], true],
    ['9.9.9.9', 53, [], false],
    ['9.9.9.9', 443, [], true],
    ['10.0.0.1', 80, [], false],
  ] as const)('%s:%d known as %j: %s', (address, port, names, expected) => {
    expect(policy.connect(address, port, names).allowed).toBe(expected)
  })

  test('a name that a proxy resolves is refused, because it may lead to a denied address', () => {
    expect(policy.ask('closed.example', 443, undefined).allowed).toBe(false)
    expect(policy.ask('open.example', 443, undefined).allowed).toBe(true)
    expect(policy.ask('closed.example', 443, '8.8.8.8').allowed).toBe(false)
    expect(policy.ask('closed.example', 443, '1.1.1.1').allowed).toBe(true)
  })
})

describe('mode public', () => {
  const open = compile('public', [{ cidr: '10.1.0.0/16' }])
  test.each([
    ['1.1.1.1', 443, [], true],
    ['2600::1', 443, [], true],
    ['::ffff:1.1.1.1', 443, [], true],
    ['10.0.0.1', 80, [], false],
    ['10.1.0.1', 80, [], false], // reachable, but no rule counts in this mode
    ['198.41.0.4', 80, [], false], // public, and of this host
    ['2600::5', 80, [], false],
    ['64:ff9b::198.41.0.4', 80, [], false], // the same, behind a translator
    ['168.63.129.16', 80, [], false],
    ['169.254.169.254', 80, ['mirror.corp.example'], false],
    ['127.0.0.1', 4873, ['mirror.corp.example'], false],
    ['10.2.3.4', 4873, ['mirror.corp.example'], true],
    ['10.2.3.4', 80, ['mirror.corp.example'], false],
    ['10.2.3.4', 4873, ['example.com'], false],
    ['10.1.0.5', 4873, ['mirror.corp.example'], true], // a registry that this host runs itself
    ['10.9.9.9', 3141, [], true],
    ['10.9.9.9', 22, [], false],
    ['gibberish', 22, [], false],
  ] as const)('%s:%d known as %j: %s', (address, port, names, expected) => {
    expect(open.connect(address, port, names).allowed).toBe(expected)
  })

  test('a name of local networks is looked up only if it is a registry', () => {
    expect(open.lookUp('example.com').allowed).toBe(true)
    expect(open.lookUp('intranet').allowed).toBe(false)
    expect(open.lookUp('metadata.google.internal').allowed).toBe(false)
    expect(open.lookUp('mirror.corp.example').allowed).toBe(true)
  })

  test('no address is reached that is not public, whatever form it comes in', () => {
    fc.assert(
      fc.property(fc.ipV4(), fc.constantFrom('10.', '127.', '192.168.', '169.254.', '0.'), (tail, head) => {
        const address =
          head +
          tail
            .split('.')
            .slice(head.split('.').length - 1)
            .join('.')
        for (const form of [address, `::ffff:${address}`, `64:ff9b::${address}`, `::${address}`]) {
          expect(open.connect(form, 80, []).allowed).toBe(false)
          expect(open.answer('evil.example', form).allowed).toBe(false)
        }
      }),
    )
  })
})

describe('mode allow', () => {
  const some = compile('allow', [
    { domain: 'example.com', ports: [443] },
    { domain: '*.Wild.example.' },
    { domain: 'mirror.corp.example' },
    { cidr: '9.9.9.0/24', ports: [53, 853] },
    { cidr: '10.0.0.0/8' },
    { cidr: '198.41.0.0/24' },
    { cidr: '127.0.0.0/8' },
  ])
  test.each([
    ['1.1.1.1', 443, ['example.com'], true, true],
    ['1.1.1.1', 80, ['example.com'], false],
    ['1.1.1.1', 443, ['other.example'], false],
    ['1.1.1.1', 443, [], false],
    ['1.1.1.1', 80, ['a.wild.example'], true, true],
    ['1.1.1.1', 80, ['wild.example'], false],
    ['9.9.9.9', 853, [], true, false],
    ['9.9.9.9', 443, [], false],
    ['10.1.2.3', 80, [], true, false],
    ['10.2.0.1', 80, [], false], // named by a rule, not opened by the operator
    ['10.1.0.5', 80, [], false], // opened, but of this host
    ['198.41.0.4', 80, [], false],
    ['127.0.0.1', 80, [], false],
    ['10.1.2.3', 443, ['example.com'], true, false],
    ['10.2.0.1', 443, ['example.com'], false], // rebinding
    ['10.2.0.1', 4873, ['mirror.corp.example'], true, true],
    ['172.16.0.1', 4873, ['mirror.corp.example'], true, true],
    ['10.9.9.9', 3141, [], true, true], // a registry, and in a range that a rule names
  ] as const)('%s:%d known as %j: %s', (address, port, names, expected, byName?: boolean) => {
    const verdict = some.connect(address, port, names)
    expect(verdict.allowed).toBe(expected)
    if (verdict.allowed) expect(verdict.byName).toBe(byName)
  })

  test('what is open to a registry only is open to its name only', () => {
    const wide = compile('allow', [{ domain: '*.corp.example' }])
    for (const policy of [wide, compile('public')]) {
      expect(policy.connect('10.2.3.4', 4873, ['mirror.corp.example'])).toMatchObject({
        ...{ allowed: true, byName: true, isRegistry: true },
      })
      expect(policy.ask('mirror.corp.example', 4873, '10.2.3.4').allowed).toBe(true)
      // Covered by the rule, and a neighbour of the registry behind its address.
      expect(policy.ask('wiki.corp.example', 4873, '10.2.3.4').allowed).toBe(false)
      expect(policy.ask('10.2.3.4', 4873, '10.2.3.4').allowed).toBe(false)
    }
    const byAddress = compile('public')
    expect(byAddress.ask('10.9.9.9', 3141, '10.9.9.9').allowed).toBe(true)
    expect(byAddress.ask('wiki.corp.example', 3141, '10.9.9.9').allowed).toBe(false)
  })

  test('a registry needs a rule too', () => {
    const without = compile('allow', [{ domain: 'example.com' }])
    expect(without.connect('10.9.9.9', 3141, []).allowed).toBe(false)
    expect(without.lookUp('mirror.corp.example').allowed).toBe(false)
  })

  test('only names that a rule covers are looked up', () => {
    expect(some.lookUp('example.com').allowed).toBe(true)
    expect(some.lookUp('a.example.com').allowed).toBe(false)
    expect(some.lookUp('9.9.9.in-addr.arpa').allowed).toBe(false)
  })
})

describe('rules that could never allow anything', () => {
  test.each([
    [{ cidr: '127.0.0.0/8' }, 'loopback'],
    [{ cidr: '169.254.169.254' }, 'link-local'],
    [{ cidr: '::1/128' }, 'loopback'],
    [{ cidr: '10.0.0.0/9' }, undefined],
    [{ cidr: '10.1.2.0/24' }, undefined],
    [{ cidr: '192.168.0.0/16' }, 'not public'],
    [{ cidr: 'fd02::/16' }, 'not public'],
    [{ cidr: 'fd01:2::/32' }, undefined],
    [{ cidr: '0.0.0.0/0' }, undefined],
    [{ cidr: '::/0' }, undefined],
    [{ cidr: '1.2.3.4/8' }, undefined],
    [{ cidr: '1.2.3/8' }, 'is not an address range'],
    [{ domain: 'exa mple' }, 'is not a domain name'],
    [{ domain: '*.example.com' }, undefined],
  ] as [AllowRule, string | undefined][])('%j: %s', (rule, problem) => {
    const check = () => checkRules([rule], ['10.1.0.0/16', 'fd01::/16'])
    if (problem === undefined) check()
    else expect(check).toThrow(problem)
  })
})
