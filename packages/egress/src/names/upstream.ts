import { UPSTREAM_ATTEMPTS, UPSTREAM_SERVERS_MAX, UPSTREAM_TIMEOUT_MS } from '../limits.ts'
import type { UpstreamAnswer } from './answer-cache.ts'
import { askServer } from './ask-server.ts'
import { type NameServer, parseNameServer, readNameServers } from './name-servers.ts'
import { type DnsRecord, RCODE, type UpstreamReply } from './packet.ts'

export interface UpstreamOptions {
  /** Default: the host's. */
  readonly resolvers?: readonly string[]
  readonly timeoutMs?: number
}

/** How long the host counts as having no name server after none answered. */
const SILENCE_BELIEVED_MS = 60_000

/** The upstream name servers, asked in order until one answers. Shared by all sandboxes. */
export class Upstream {
  readonly #servers: () => NameServer[]
  readonly #timeoutMs: number
  #hasAnswered = false
  #silentUntilMs = 0

  constructor({ resolvers, timeoutMs = UPSTREAM_TIMEOUT_MS }: UpstreamOptions = {}) {
    const given = resolvers?.map(parseNameServer).filter((server) => server !== undefined)
    this.#servers = given === undefined ? readNameServers : () => given.slice(0, UPSTREAM_SERVERS_MAX)
    this.#timeoutMs = timeoutMs
  }

  /**
   * True while no server has ever answered. One answer of any kind makes it false for good: a sandbox must not be able
   * to cause it, because the proxy then resolves names and may resolve them to private addresses.
   */
  get isSilent(): boolean {
    return !this.#hasAnswered && performance.now() < this.#silentUntilMs
  }

  /** Returns undefined when no server answers. */
  async ask(name: string, type: string): Promise<UpstreamAnswer | undefined> {
    const servers = this.#servers()
    for (let attempt = 0; attempt < UPSTREAM_ATTEMPTS; attempt++) {
      for (const server of servers) {
        // A server that does not answer: the next one is asked.
        const reply = await askServer(server, { name, type }, this.#timeoutMs).catch(() => undefined)
        if (reply === undefined) continue
        this.#hasAnswered = true
        if (isFinal(reply)) return toAnswer(reply)
      }
    }
    if (!this.#hasAnswered) this.#silentUntilMs = performance.now() + SILENCE_BELIEVED_MS
    return undefined
  }
}

/** SERVFAIL and the like are about that server, not about the name. */
function isFinal({ rcode }: UpstreamReply): boolean {
  return rcode === RCODE.NOERROR || rcode === RCODE.NXDOMAIN
}

function toAnswer({ rcode, answers, authorities }: UpstreamReply): UpstreamAnswer {
  const ttls = (answers.length > 0 ? answers : authorities).map(ttlOf)
  return { rcode, records: answers, ttlSeconds: ttls.length > 0 ? Math.min(...ttls) : 0 }
}

function ttlOf(record: DnsRecord): number {
  return 'ttl' in record ? (record.ttl ?? 0) : 0
}
