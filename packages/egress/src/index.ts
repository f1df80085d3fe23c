export type { Certified } from './edge/certificate.ts'
export { openAuthority } from './edge/open-authority.ts'
export type { InterceptedDestination, Interceptor } from './gate/interceptor.ts'
export type { AllowRule, CidrRule, DomainRule, EdgeSecret, EgressPolicy } from './policy/egress-policy.ts'
