import type { Denial } from '../gate/denial-collector.ts'
import type { GateDescriptors } from '../gate/gate.ts'
import type { OpenEnd } from '../gate/parked-ends.ts'
import type { EgressPolicy } from '../policy/egress-policy.ts'
import type { FailedLookup } from './egress-listeners.ts'

export type ToWorker =
  | { readonly type: 'attach'; readonly request: number; readonly attach: AttachMessage }
  | {
      readonly type: 'change'
      readonly request: number
      readonly sandboxId: string
      readonly policy: EgressPolicy
    }
  | {
      readonly type: 'detach' | 'park' | 'list-open' | 'unpark' | 'end-parked'
      readonly request: number
      readonly sandboxId: string
    }
  | {
      readonly type: 'resume'
      readonly request: number
      readonly sandboxId: string
      readonly ends: readonly OpenEnd[]
    }
  | { readonly type: 'forget'; readonly sandboxId: string }
  | { readonly type: 'host-addresses'; readonly addresses: readonly string[] }
  | { readonly type: 'report-denials'; readonly request: number }
  | { readonly type: 'close'; readonly request: number }

export interface AttachMessage {
  readonly sandboxId: string
  readonly descriptors: GateDescriptors
  readonly policy: EgressPolicy
  readonly counters: SharedArrayBuffer
  /**
   * The worker sets it before it takes the descriptors. If the worker dies, the descriptors died with it exactly when
   * this is set.
   */
  readonly taken: SharedArrayBuffer
}

export type FromWorker =
  | { readonly type: 'ready' }
  | { readonly type: 'done'; readonly request: number; readonly value: unknown }
  | { readonly type: 'failed'; readonly request: number; readonly message: string }
  | { readonly type: 'denial'; readonly denial: Denial }
  | { readonly type: 'failed-lookup'; readonly failed: FailedLookup }
  | { readonly type: 'data-asleep'; readonly sandboxId: string }
  | { readonly type: 'lost'; readonly sandboxId: string; readonly to: readonly string[] }
