export { type Certified, makeAuthority } from './edge/certificate.ts'
export type { InterceptedDestination, Interceptor } from './gate/interceptor.ts'
export type { AllowRule, CidrRule, DomainRule, EdgeSecret, EgressPolicy } from './policy/egress-policy.ts'
