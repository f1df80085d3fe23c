import { type AllowRule, DormouseError } from '@dormouse/contracts'
import { edgesOf, isInRange, parseRange, type Range } from './address.ts'
import { classOf } from './address-class.ts'
import { normalizePattern } from './domain-name.ts'

/**
 * Throws when a rule can never allow anything on this host, so that its author learns it now and not from a reset
 * connection. A range that is partly public is accepted; the rest of it stays closed.
 */
export function checkRules(rules: readonly AllowRule[], reachable: readonly string[] = []): void {
  const opened = reachable.map((text) => parseRange(text)).filter((range) => range !== undefined)
  for (const rule of rules) {
    if ('cidr' in rule) checkRange(rule.cidr, opened)
    else if (normalizePattern(rule.domain) === undefined) {
      throw new DormouseError(
        'invalid_argument',
        `network.allow: ${JSON.stringify(rule.domain)} is not a domain name`,
        {
          hint: 'Write a name as `example.com`, or `*.example.com` for every name below it.',
        },
      )
    }
  }
}

function checkRange(cidr: string, opened: readonly Range[]): void {
  const range = parseRange(cidr)
  if (range === undefined) {
    throw new DormouseError(
      'invalid_argument',
      `network.allow: ${JSON.stringify(cidr)} is not an address range`,
      {
        hint: 'Write a range as `203.0.113.0/24` or `2001:db8::/32`.',
      },
    )
  }
  const [first, last] = edgesOf(range)
  const kind = classOf(first)
  if (first.range() !== last.range() || kind.reach === 'public' || classOf(last).kind !== kind.kind) return
  if (kind.reach === 'forbidden') {
    throw new DormouseError(
      'invalid_argument',
      `network.allow: ${cidr} is ${kind.kind}, which no rule can open`,
      {
        hint: 'Inside a sandbox, loopback is the sandbox itself. Addresses of the host are never reachable.',
      },
    )
  }
  const isOpen = opened.some(
    (open) => (isInRange(first, open) && isInRange(last, open)) || isInRange(open[0], range),
  )
  if (!isOpen) {
    throw new DormouseError('invalid_argument', `network.allow: ${cidr} is not public (${kind.kind})`, {
      hint: 'The operator lists private networks that rules may open in the setting `network.reachable`.',
    })
  }
}
