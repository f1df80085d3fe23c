import type { Socket } from 'node:net'
import type { EdgeSecret } from '../policy/egress-policy.ts'

/** Takes over connections whose requests are read one by one. `edge/` implements it. */
export interface Interceptor {
  /**
   * `client` is paused, and its bytes can still be read from the first one on. The interceptor owns both sockets from
   * here on and ends them. Destroying `client` is always safe.
   */
  take(client: Socket, to: InterceptedDestination): void
}

export interface InterceptedDestination {
  /** The name in the first message (SNI or `Host`), normalized. Every request must be for it. */
  readonly name: string
  readonly port: number
  /** Called when a request for another `host` was refused. Nothing of it was sent. */
  readonly onMisdirected?: (host: string) => void
  /** Called after each answer, so that the bytes can be counted. */
  readonly onAnswered?: () => void
  /** Called when bytes of the server arrive. */
  readonly onServerBytes?: () => void
  /** Whether the connection waits for the sandbox's next burrow. No time-out ends it meanwhile. */
  readonly isParked?: () => boolean
  /** The policy's secrets for `name`. Read for every request, so a changed value applies at once. */
  readonly secrets: readonly EdgeSecret[]
  /** Opens a new plain TCP connection to the server, as the policy allows now. Rejects when refused or unreachable. */
  readonly connect: () => Promise<Socket>
}
