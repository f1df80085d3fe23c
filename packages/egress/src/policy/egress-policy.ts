import type { AllowRule } from '@dormouse/contracts'

/** What a sandbox may reach. `none`: nothing. `public`: every public address. `allow`: what a rule names, nothing else. */
export interface EgressPolicy {
  readonly mode: 'none' | 'public' | 'allow'
  /** Read in mode `allow` only. A wildcard covers the names below it, not the name itself. */
  readonly allow: readonly AllowRule[]
  readonly secrets: readonly EdgeSecret[]
  /** The API key whose share of connections it takes from. Its own when left out. */
  readonly owner?: string
}

/** A secret that is put into requests outside of the sandbox: inside there is only `placeholder`. */
export interface EdgeSecret {
  readonly placeholder: string
  readonly value: string
  /** `example.com` or `*.example.com`: the only places that `value` is sent to. */
  readonly domains: readonly string[]
  /** Why it cannot be used: requests with its placeholder are refused with this. Read inside of the sandbox. */
  readonly problem?: string
}
