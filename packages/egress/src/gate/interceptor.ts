import type { Socket } from 'node:net'
import type { EdgeSecret } from '../policy/egress-policy.ts'

/** Takes over connections whose requests are read one by one. Implemented by `edge/`. */
export interface Interceptor {
  /**
   * `client` is paused, and everything it has sent, from its first byte, can still be read from it.
   * From here on both sockets belong to the interceptor: it ends them, whatever happens. Destroying `client` is always right.
   */
  take(client: Socket, to: InterceptedDestination): void
}

export interface InterceptedDestination {
  /** The name that the client asked for first (SNI or `Host`): lower case, no dot at the end. Every request must be for it. */
  readonly name: string
  readonly port: number
  /** A request asked for `host` on this connection. It was answered with a refusal, and nothing of it was sent. */
  readonly onMisdirected?: (host: string) => void
  /** A request has been answered: what has passed so far can be counted. */
  readonly onAnswered?: () => void
  /** Those of the policy's secrets that have a domain which covers `name`, as they are now: read for every request, so a changed value counts at once. */
  readonly secrets: readonly EdgeSecret[]
  /** A new connection to its server, as the policy allows now. Plain TCP. Rejects when refused or unreachable. */
  readonly connect: () => Promise<Socket>
}
