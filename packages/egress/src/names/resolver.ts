import { lookup } from 'node:dns/promises'
import { isIPv6 } from 'node:net'
import { Limiter } from '@dormouse/async'
import {
  DNS_UDP_DEFAULT_BYTES,
  QUESTIONS_MAX_IN_FLIGHT,
  QUESTIONS_MAX_QUEUED,
  REGISTRY_TTL_SECONDS,
} from '../limits.ts'
import { canonicalAddress } from '../policy/address.ts'
import type { CompiledPolicy } from '../policy/compiled-policy.ts'
import { normalizeName } from '../policy/domain-name.ts'
import { AnswerCache, type UpstreamAnswer } from './answer-cache.ts'
import { filterAnswer } from './filter-answer.ts'
import {
  type DnsRecord,
  type Query,
  RCODE,
  type Reply,
  readQuery,
  writeBadReply,
  writeReply,
} from './packet.ts'
import type { Pins } from './pins.ts'
import type { SyntheticAddresses } from './synthetic-addresses.ts'

/** What resolvers need of the host; shared by all sandboxes. */
export interface NameSources {
  readonly upstream: { ask(name: string, type: string): Promise<UpstreamAnswer | undefined> }
  readonly isRegistry: (name: string) => boolean
  /** Whether the host's proxy resolves this name, because the host cannot. */
  readonly isResolvedByProxy: (name: string) => boolean
  readonly hasIpv6: () => Promise<boolean>
}

export interface ResolverOptions {
  readonly sources: NameSources
  /** The current policy. A change also applies to questions in progress. */
  readonly policy: () => CompiledPolicy
  readonly pins: Pins
  readonly synthetic: SyntheticAddresses
  readonly onQuery: () => void
  readonly onDenial: (denial: { name: string; address?: string; reason: string }) => void
  /** The sandbox may look up this name, but gets no address. Called for questions about addresses only. */
  readonly onFailure: (failure: { name: string; reason: string }) => void
}

/** Zone transfers and ANY: no program needs them (RFC 8482). */
const NOT_IMPLEMENTED = new Set(['AXFR', 'IXFR', 'ANY'])
/**
 * HTTPS and SVCB records: their addresses would bypass the pins, and their keys would encrypt the name that a
 * connection asks for. Clients work without them.
 */
const WITHHELD = new Set(['UNKNOWN_64', 'UNKNOWN_65'])
const NOT_RESOLVED = {
  local: 'a local name, and a sandbox sees no local network',
  absent: 'the name does not exist',
  noAddress: 'the name has no address',
  onlyIpv6: 'the name has only IPv6 addresses, and this host has no IPv6',
  noAnswer: 'no name server answered',
  tooMany: 'too many look-ups at once',
}
const EMPTY: Reply = { rcode: RCODE.NOERROR, records: [] }
const FAILED: Reply = { rcode: RCODE.SERVFAIL, records: [] }

class TooManyQuestions extends Error {}

interface NoAnswer {
  readonly problem: string
}

interface Looked extends Reply {
  /** Those that the policy allows. */
  readonly addresses: readonly string[]
  /** Why there is no answer. */
  readonly problem?: string
  /** Whether the name exists and has nothing of this type. */
  readonly isEmpty?: boolean
}

/** The name server of one sandbox. */
export class Resolver {
  readonly #options: ResolverOptions
  readonly #cache = new AnswerCache()
  readonly #limiter = new Limiter({
    concurrency: QUESTIONS_MAX_IN_FLIGHT,
    maxQueued: QUESTIONS_MAX_QUEUED,
    refuse: () => new TooManyQuestions(),
  })
  readonly #pending = new Map<string, Promise<UpstreamAnswer | NoAnswer>>()

  constructor(options: ResolverOptions) {
    this.#options = options
  }

  /** Answers a packet from a sandbox, or returns undefined when it deserves no answer. Never rejects. */
  async answer(packet: Buffer, transport: 'udp' | 'tcp'): Promise<Buffer | undefined> {
    const query = readQuery(packet)
    if (query === undefined) return undefined
    if ('rcode' in query) return writeBadReply(query)
    const maxBytes = transport === 'tcp' ? 0xffff : (query.ednsBytes ?? DNS_UDP_DEFAULT_BYTES)
    const name = normalizeName(query.name)
    if (name === undefined || query.class !== 'IN')
      return writeBadReply({ id: query.id, rcode: RCODE.REFUSED })
    try {
      return writeReply(query, await this.#reply(name, query), maxBytes)
    } catch {
      // The reply has a record that cannot be encoded.
      return writeReply(query, FAILED, maxBytes)
    }
  }

  /** The addresses of a name that the policy allows now. They are pinned, as those that the sandbox looks up are. */
  async addressesOf(name: string): Promise<string[]> {
    const found = await Promise.all(['A', 'AAAA'].map((type) => this.#look(name, type)))
    return found.flatMap((reply) => reply.addresses)
  }

  async #reply(name: string, query: Query): Promise<Reply> {
    this.#options.onQuery()
    const verdict = this.#options.policy().lookUp(name)
    if (!verdict.allowed) {
      if (verdict.isUnrecorded) {
        this.#reportFailure(name, query.type, NOT_RESOLVED.local)
        return { rcode: RCODE.NXDOMAIN, records: [] }
      }
      this.#options.onDenial({ name, reason: verdict.reason })
      return { rcode: RCODE.REFUSED, records: [], prohibited: verdict.reason }
    }
    if (NOT_IMPLEMENTED.has(query.type)) return { rcode: RCODE.NOTIMP, records: [] }
    if (WITHHELD.has(query.type)) return EMPTY
    const { rcode, records, problem, isEmpty } = await this.#look(name, query.type)
    if (problem !== undefined) this.#reportFailure(name, query.type, problem)
    // Most names have no AAAA record, so only a missing A record can mean that a name has no address at all.
    else if (isEmpty && query.type === 'A') void this.#explainMissingAddress(name)
    return { rcode, records }
  }

  /** Programs ask for other types just in case: apt, for example, asks for SRV. */
  #reportFailure(name: string, type: string, reason: string): void {
    if (type === 'A' || type === 'AAAA') this.#options.onFailure({ name, reason })
  }

  async #explainMissingAddress(name: string): Promise<void> {
    const answer = await this.#ask(name, 'AAAA')
    if ('problem' in answer) return
    const hasAddress = hasRecord(answer, 'AAAA')
    if (hasAddress && (await this.#options.sources.hasIpv6())) return
    this.#reportFailure(name, 'A', hasAddress ? NOT_RESOLVED.onlyIpv6 : NOT_RESOLVED.noAddress)
  }

  async #look(name: string, type: string): Promise<Looked> {
    if (!this.#options.policy().lookUp(name).allowed)
      return { rcode: RCODE.REFUSED, records: [], addresses: [] }
    if (this.#options.sources.isResolvedByProxy(name)) return this.#syntheticReply(name, type)
    const answer = await this.#ask(name, type)
    if ('problem' in answer) {
      // The first failure shows that the host has no working name server.
      return this.#options.sources.isResolvedByProxy(name)
        ? this.#syntheticReply(name, type)
        : { ...FAILED, addresses: [], problem: answer.problem }
    }
    const hasIpv6 = type === 'AAAA' && answer.records.length > 0 && (await this.#options.sources.hasIpv6())
    // No `await` from here on: the policy must not change between the verdict and the pin.
    const policy = this.#options.policy()
    if (!policy.lookUp(name).allowed) return { rcode: RCODE.REFUSED, records: [], addresses: [] }
    const { records, addresses, refused } = filterAnswer(answer.records, {
      name,
      type,
      ttlSeconds: answer.ttlSeconds,
      judge: (address) => policy.answer(name, address),
      isRoutable: (address) => !isIPv6(address) || hasIpv6,
    })
    for (const { address, ttlSeconds } of addresses) this.#options.pins.add(name, address, ttlSeconds)
    for (const { address, reason } of refused) this.#options.onDenial({ name, address, reason })
    return {
      rcode: answer.rcode,
      records,
      addresses: addresses.map(({ address }) => address),
      ...(answer.rcode === RCODE.NXDOMAIN && { problem: NOT_RESOLVED.absent }),
      isEmpty: !hasRecord(answer, type),
    }
  }

  async #ask(name: string, type: string): Promise<UpstreamAnswer | NoAnswer> {
    const key = `${type} ${name}`
    const cached = this.#cache.find(key)
    if (cached !== undefined) return cached
    const pending = this.#pending.get(key)
    if (pending !== undefined) return pending
    const asking = this.#askUpstream(name, type).finally(() => this.#pending.delete(key))
    this.#pending.set(key, asking)
    const answer = await asking
    if (!('problem' in answer)) this.#cache.add(key, answer)
    return answer
  }

  async #askUpstream(name: string, type: string): Promise<UpstreamAnswer | NoAnswer> {
    const { isRegistry, upstream } = this.#options.sources
    const ask = () => (isRegistry(name) ? lookUpAsHost(name, type) : upstream.ask(name, type))
    try {
      return (await this.#limiter.run(ask)) ?? { problem: NOT_RESOLVED.noAnswer }
    } catch (error) {
      if (error instanceof TooManyQuestions) return { problem: NOT_RESOLVED.tooMany }
      throw error
    }
  }

  #syntheticReply(name: string, type: string): Looked {
    if (type !== 'A') return { ...EMPTY, addresses: [] }
    const address = this.#options.synthetic.addressFor(name)
    const record: DnsRecord = { type: 'A', name, ttl: REGISTRY_TTL_SECONDS, data: address }
    return { rcode: RCODE.NOERROR, records: [record], addresses: [address] }
  }
}

function hasRecord({ records }: UpstreamAnswer, type: string): boolean {
  return records.some((record) => record.type === type)
}

/** The host may know registries from its /etc/hosts only. Sandboxes see no other name of that file. */
async function lookUpAsHost(name: string, type: string): Promise<UpstreamAnswer> {
  const family = type === 'A' ? 4 : type === 'AAAA' ? 6 : undefined
  // A name that the host does not know has no addresses.
  const found = family === undefined ? [] : await lookup(name, { all: true, family }).catch(() => [])
  const records = found.flatMap(({ address }): DnsRecord[] => {
    const data = canonicalAddress(address)
    return data === undefined ? [] : [{ type: type as 'A' | 'AAAA', name, ttl: REGISTRY_TTL_SECONDS, data }]
  })
  return { rcode: RCODE.NOERROR, records, ttlSeconds: REGISTRY_TTL_SECONDS }
}
