import { type Address, isInRange, parseAddress, parseRange, type Range } from './address.ts'
import { classOf, translated } from './address-class.ts'
import { covers, normalizePattern } from './domain-name.ts'
import type { EdgeSecret, EgressPolicy } from './egress-policy.ts'
import type { HostNetwork } from './host-network.ts'
import { isSpecialName } from './special-names.ts'
import {
  ALLOWED,
  ALLOWED_AS_REGISTRY,
  ALLOWED_BY_NAME,
  type Refused,
  refused,
  type Verdict,
} from './verdict.ts'

interface DomainMatch {
  readonly pattern: string
  readonly ports: readonly number[] | undefined
}

interface RangeMatch {
  readonly range: Range
  readonly ports: readonly number[] | undefined
}

interface Asked {
  readonly address: string
  readonly port: number
  /** A rule for one of these names opens the address. */
  readonly names: readonly string[]
  /** One of these must be a registry when the address is open to registries only. */
  readonly registries: readonly string[]
}

const OFF = refused('the network of this sandbox is off')
const LOCAL_NAME: Refused = { allowed: false, reason: 'a local name', isUnrecorded: true }
const NOT_ALLOWED = refused('no rule allows it')
const DENIED = refused('a rule denies it')
const UNKNOWN_ADDRESS = refused('a rule denies addresses, and the proxy of this host hides them')

/** A policy, parsed. Expects normalized names and canonical addresses. */
export class CompiledPolicy {
  readonly mode: EgressPolicy['mode']
  readonly secrets: readonly EdgeSecret[]
  readonly #domains: readonly DomainMatch[]
  readonly #ranges: readonly RangeMatch[]
  readonly #denied: readonly RangeMatch[]
  readonly #hostNetwork: HostNetwork

  constructor(policy: EgressPolicy, hostNetwork: HostNetwork) {
    this.mode = policy.mode
    this.secrets = policy.secrets
    this.#hostNetwork = hostNetwork
    this.#domains = policy.allow.flatMap((rule) => {
      const pattern = 'domain' in rule ? normalizePattern(rule.domain) : undefined
      return pattern === undefined ? [] : [{ pattern, ports: rule.ports }]
    })
    this.#ranges = rangesOf(policy.allow)
    this.#denied = policy.mode === 'public' ? rangesOf(policy.deny ?? []) : []
  }

  /** Whether the sandbox may look up this name. */
  lookUp(name: string): Verdict {
    if (this.mode === 'none') return OFF
    if (this.mode === 'allow') return this.#coversName(name) ? ALLOWED_BY_NAME : NOT_ALLOWED
    // Local names reveal the host's network, even if their addresses are withheld.
    return isSpecialName(name) && !this.#hostNetwork.isRegistry(name) ? LOCAL_NAME : ALLOWED
  }

  /** Whether the sandbox may learn this address of `name`, which it may look up. */
  answer(name: string, address: string): Verdict {
    const parsed = parseAddress(address)
    if (parsed === undefined) return refused('not an address')
    return this.#hostNetwork.isRegistry(name) ? this.#registryAddress(parsed) : this.#address(parsed)
  }

  /** Whether the sandbox may connect. `names` are the names under which it learned this address. */
  connect(address: string, port: number, names: readonly string[]): Verdict {
    return this.#decide({ address, port, names, registries: [address, ...names] })
  }

  /**
   * Whether a connection to `address` that was allowed by name may ask for `host`, a name or an address. `host` alone
   * must allow it: a name that shares the address with an allowed name opens nothing. `address` is undefined when a
   * proxy resolves the name.
   */
  ask(host: string, port: number, address: string | undefined): Verdict {
    if (address !== undefined) return this.#decide({ address, port, names: [host], registries: [host] })
    if (this.mode === 'none') return OFF
    if (this.#coversName(host, port)) return ALLOWED_BY_NAME
    if (this.mode === 'allow') return NOT_ALLOWED
    return this.#denied.length > 0 ? UNKNOWN_ADDRESS : this.lookUp(host)
  }

  secretsFor(name: string): readonly EdgeSecret[] {
    return this.secrets.filter(({ domains }) =>
      domains.some((domain) => covers(normalizePattern(domain) ?? '', name)),
    )
  }

  #decide({ address, port, names, registries }: Asked): Verdict {
    if (this.mode === 'none') return OFF
    const parsed = parseAddress(address)
    if (parsed === undefined) return refused('not an address')
    const byRange = this.#ranges.some(({ range, ports }) => isInRange(parsed, range) && hasPort(ports, port))
    const isCovered = (name: string) => this.mode === 'public' || byRange || this.#coversName(name, port)
    const problem = this.#address(parsed)
    if (!problem.allowed) {
      const known = registries.filter((host) => this.#hostNetwork.isRegistry(host, port))
      if (known.length === 0) return problem
      const asRegistry = this.#registryAddress(parsed)
      if (!asRegistry.allowed) return asRegistry
      return known.some(isCovered) ? ALLOWED_AS_REGISTRY : NOT_ALLOWED
    }
    if (byRange || (this.mode === 'public' && !this.#denies(parsed, port))) return ALLOWED
    if (this.mode === 'public')
      return names.some((name) => this.#coversName(name, port)) ? ALLOWED_BY_NAME : DENIED
    return names.some(isCovered) ? ALLOWED_BY_NAME : NOT_ALLOWED
  }

  #denies(address: Address, port: number): boolean {
    // An IPv6 address may lead to an IPv4 address behind a translator.
    return [address, translated(address)].some((one) =>
      this.#denied.some(({ range, ports }) => isInRange(one, range) && hasPort(ports, port)),
    )
  }

  #coversName(name: string, port?: number): boolean {
    return this.#domains.some(({ pattern, ports }) => covers(pattern, name) && hasPort(ports, port))
  }

  #address(address: Address): Verdict {
    const { reach, kind } = classOf(address)
    if (reach === 'forbidden') return notPublic(kind)
    if (this.#hostNetwork.isHostAddress(address)) return notPublic('of this host')
    if (reach === 'public') return ALLOWED
    // `network.reachable` opens private networks to explicit rules only; mode `public` means the public internet.
    return this.mode === 'allow' && this.#hostNetwork.isReachable(address) ? ALLOWED : notPublic(kind)
  }

  /**
   * The operator names registries with their ports, so a registry may be private, or a service of this host. Loopback
   * is never one: inside a sandbox it means the sandbox itself.
   */
  #registryAddress(address: Address): Verdict {
    const { reach, kind } = classOf(address)
    return reach === 'forbidden' ? notPublic(kind) : ALLOWED
  }
}

function rangesOf(rules: EgressPolicy['allow']): RangeMatch[] {
  return rules.flatMap((rule) => {
    const range = 'cidr' in rule ? parseRange(rule.cidr) : undefined
    return range === undefined ? [] : [{ range, ports: rule.ports }]
  })
}

function notPublic(kind: string): Refused {
  return refused(`not a public address (${kind})`)
}

function hasPort(ports: readonly number[] | undefined, port: number | undefined): boolean {
  return ports === undefined || port === undefined || ports.includes(port)
}
