import { type Address, isInRange, parseAddress, parseRange, type Range } from './address.ts'
import { classOf } from './address-class.ts'
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
  /** A rule for one of these opens the address. */
  readonly names: readonly string[]
  /** One of these must be a registry where only a registry may be reached. */
  readonly registries: readonly string[]
}

const OFF = refused('the network of this sandbox is off')
const LOCAL_NAME: Refused = { allowed: false, reason: 'a name of local networks', isUnrecorded: true }
const NOT_ALLOWED = refused('no rule allows it')

/** A policy made ready to be asked. Names are normalized, addresses as `canonicalAddress` spells them. */
export class CompiledPolicy {
  readonly mode: EgressPolicy['mode']
  readonly secrets: readonly EdgeSecret[]
  readonly #domains: readonly DomainMatch[]
  readonly #ranges: readonly RangeMatch[]
  readonly #hostNetwork: HostNetwork

  constructor(policy: EgressPolicy, hostNetwork: HostNetwork) {
    this.mode = policy.mode
    this.secrets = policy.secrets
    this.#hostNetwork = hostNetwork
    this.#domains = policy.allow.flatMap((rule) => {
      const pattern = 'domain' in rule ? normalizePattern(rule.domain) : undefined
      return pattern === undefined ? [] : [{ pattern, ports: rule.ports }]
    })
    this.#ranges = policy.allow.flatMap((rule) => {
      const range = 'cidr' in rule ? parseRange(rule.cidr) : undefined
      return range === undefined ? [] : [{ range, ports: rule.ports }]
    })
  }

  /** May this name be looked up? */
  lookUp(name: string): Verdict {
    if (this.mode === 'none') return OFF
    if (this.mode === 'allow') return this.#coversName(name) ? ALLOWED_BY_NAME : NOT_ALLOWED
    // Names of the host's own network say something about it, even where their addresses are held back.
    return isSpecialName(name) && !this.#hostNetwork.isRegistry(name) ? LOCAL_NAME : ALLOWED
  }

  /** May the sandbox learn that `name`, which it may look up, has this address? */
  answer(name: string, address: string): Verdict {
    const parsed = parseAddress(address)
    if (parsed === undefined) return refused('not an address')
    return this.#hostNetwork.isRegistry(name) ? this.#registryAddress(parsed) : this.#address(parsed)
  }

  /** May it be connected to? `names` are those under which the sandbox has learned of this address. */
  connect(address: string, port: number, names: readonly string[]): Verdict {
    return this.#decide({ address, port, names, registries: [address, ...names] })
  }

  /**
   * May a connection to `address` that was allowed by name ask for `host`, a name or an address? On its own it must lead there: a name that
   * shares the address with an allowed one opens nothing. Undefined: there is no address, because a proxy resolves.
   */
  ask(host: string, port: number, address: string | undefined): Verdict {
    if (address !== undefined) return this.#decide({ address, port, names: [host], registries: [host] })
    if (this.mode === 'none') return OFF
    if (this.mode === 'public') return this.lookUp(host)
    return this.#coversName(host, port) ? ALLOWED_BY_NAME : NOT_ALLOWED
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
    if (this.mode === 'public' || byRange) return ALLOWED
    return names.some(isCovered) ? ALLOWED_BY_NAME : NOT_ALLOWED
  }

  #coversName(name: string, port?: number): boolean {
    return this.#domains.some(({ pattern, ports }) => covers(pattern, name) && hasPort(ports, port))
  }

  #address(address: Address): Verdict {
    const { reach, kind } = classOf(address)
    if (reach === 'forbidden') return notPublic(kind)
    if (this.#hostNetwork.isHostAddress(address)) return notPublic('of this host')
    if (reach === 'public') return ALLOWED
    // What the operator opened is for rules that name it; `public` means what everybody can reach.
    return this.mode === 'allow' && this.#hostNetwork.isReachable(address) ? ALLOWED : notPublic(kind)
  }

  /**
   * A registry is named by the operator, with its port: it may be private, and even be a service of this host. Loopback never: inside,
   * such an address means the sandbox itself, so nobody could ask for it here but to get at the host.
   */
  #registryAddress(address: Address): Verdict {
    const { reach, kind } = classOf(address)
    return reach === 'forbidden' ? notPublic(kind) : ALLOWED
  }
}

function notPublic(kind: string): Refused {
  return refused(`not a public address (${kind})`)
}

function hasPort(ports: readonly number[] | undefined, port: number | undefined): boolean {
  return ports === undefined || port === undefined || ports.includes(port)
}
