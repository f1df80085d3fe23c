/** What a sandbox may reach. `none`: nothing. `public`: every public address. `allow`: what a rule names, nothing else. */
export interface EgressPolicy {
  readonly mode: 'none' | 'public' | 'allow'
  /** Read in mode `allow` only. */
  readonly allow: readonly AllowRule[]
  readonly secrets: readonly EdgeSecret[]
}

export type AllowRule = DomainRule | CidrRule

export interface DomainRule {
  /** `example.com` or `*.example.com`, lower case, punycode, no dot at the end. A wildcard covers names below it, not the name itself. */
  readonly domain: string
  /** Every port when left out. */
  readonly ports?: readonly number[]
}

export interface CidrRule {
  readonly cidr: string
  readonly ports?: readonly number[]
}

/** A secret that is put into requests outside of the sandbox: inside there is only `placeholder`. */
export interface EdgeSecret {
  readonly placeholder: string
  readonly value: string
  /** `example.com` or `*.example.com`: the only places that `value` is sent to. */
  readonly domains: readonly string[]
}
