import type { Socket } from 'node:net'
import type { Destination } from '../dial/dialer.ts'
import type { Pins } from '../names/pins.ts'
import type { SyntheticAddresses } from '../names/synthetic-addresses.ts'
import type { CompiledPolicy } from '../policy/compiled-policy.ts'
import type { CounterCells } from './counter-cells.ts'
import type { Interceptor } from './interceptor.ts'

/** What a connection uses of its sandbox and of the host. */
export interface GateContext {
  /** The current policy. */
  readonly policy: () => CompiledPolicy
  readonly pins: Pins
  readonly synthetic: SyntheticAddresses
  readonly counters: CounterCells
  /** Whether nothing may go out any more. Asked before every piece: the process may have been stopped for a while. */
  readonly isFenced: () => boolean
  /** Rejects when the destination is unreachable; with `ReachesHostError` when it is this host. */
  readonly dial: (to: Destination, signal: AbortSignal) => Promise<Socket>
  /** Resolves the name and connects, as the policy allows now. */
  readonly connectByName: (name: string, port: number) => Promise<Socket>
  /** Takes TLS connections to hosts of secrets. Undefined when there is no edge. */
  readonly interceptor: Interceptor | undefined
  /** Takes plain HTTP connections that are allowed by name. */
  readonly relay: Interceptor
  /** Data for the sandbox has arrived on a connection that waits for its next burrow. */
  readonly onDataAsleep: () => void
  /** Connections ended with their burrow: what they connected to. */
  readonly onLost: (to: readonly string[]) => void
  readonly onDenial: (denial: { name?: string; address: string; port: number; reason: string }) => void
}

/** The kernel routes the address to this host, although no interface has it. */
export class ReachesHostError extends Error {
  constructor() {
    super('not a public address (of this host)')
  }
}
