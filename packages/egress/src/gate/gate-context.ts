import type { Socket } from 'node:net'
import type { Destination } from '../dial/dialer.ts'
import type { Pins } from '../names/pins.ts'
import type { SyntheticAddresses } from '../names/synthetic-addresses.ts'
import type { CompiledPolicy } from '../policy/compiled-policy.ts'
import type { CounterCells } from './counter-cells.ts'
import type { Interceptor } from './interceptor.ts'

/** What a connection needs of its sandbox and of the host. */
export interface GateContext {
  /** As it is now. */
  readonly policy: () => CompiledPolicy
  readonly pins: Pins
  readonly synthetic: SyntheticAddresses
  readonly counters: CounterCells
  /** Rejects when it cannot be reached; with `ReachesHostError` when that would be this host. */
  readonly dial: (to: Destination, signal: AbortSignal) => Promise<Socket>
  /** By a name that is resolved here and now, as the policy allows. */
  readonly connectByName: (name: string, port: number) => Promise<Socket>
  /** For TLS to hosts that a secret is for. Undefined: there is none. */
  readonly interceptor: Interceptor | undefined
  /** For plain HTTP to hosts that are reached by name. */
  readonly relay: Interceptor
  readonly onDenial: (denial: { name?: string; address: string; port: number; reason: string }) => void
}

/** The kernel had a route for the address that ends at this host, though none of its interfaces has it. */
export class ReachesHostError extends Error {
  constructor() {
    super('not a public address (of this host)')
  }
}
