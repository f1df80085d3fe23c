export type { ProxyOptions } from './dial/dialer.ts'
export { PublicDialer } from './dial/public-dialer.ts'
export { type CertificateAndKey, makeAuthority } from './edge/certificate.ts'
export type { EgressCounters } from './gate/counter-cells.ts'
export type { Denial } from './gate/denial-collector.ts'
export type { EndAddon } from './gate/end-addon.ts'
export type { GateDescriptors } from './gate/gate.ts'
export type { InterceptedDestination, Interceptor } from './gate/interceptor.ts'
export {
  type KeepableConnection,
  type KeptBudget,
  type OpenEnd,
  type ParkedEnd,
  ParkedEnds,
} from './gate/parked-ends.ts'
export { KEPT_MAX_BYTES } from './limits.ts'
export { checkRules } from './policy/check-rules.ts'
export type { EdgeSecret, EgressPolicy } from './policy/egress-policy.ts'
export type { Registry } from './policy/host-network.ts'
export { Egress, type EgressStartOptions } from './worker/egress.ts'
export type { FailedLookup } from './worker/egress-listeners.ts'
