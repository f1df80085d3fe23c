import type { Socket } from 'node:net'
import type { EdgeSecret } from '../policy/egress-policy.ts'

/** Takes over connections whose requests may need secrets. Implemented by `edge/`. */
export interface Interceptor {
  /**
   * `client` is paused, and everything it has sent, from the first byte of its ClientHello, can still be read from it.
   * From here on both sockets belong to the interceptor: it ends them, whatever happens. Destroying `client` is always right.
   */
  take(client: Socket, to: InterceptedDestination): void
}

export interface InterceptedDestination {
  /** The name the client asked for (SNI): lower case, no dot at the end. */
  readonly name: string
  readonly port: number
  /** Those of the policy's secrets that have a domain which covers `name`, as they are now: read for every request, so a changed value counts at once. */
  readonly secrets: readonly EdgeSecret[]
  /** Dials `name` as the policy allows now; the address that the sandbox had asked for plays no part. Plain TCP. Rejects when refused or unreachable. */
  readonly connect: () => Promise<Socket>
}
