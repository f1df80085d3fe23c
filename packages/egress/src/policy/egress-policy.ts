import type { AllowRule } from '@dormouse/contracts'

/** What a sandbox may reach. `none`: nothing. `public`: every public address. `allow`: only what a rule names. */
export interface EgressPolicy {
  readonly mode: 'none' | 'public' | 'allow'
  /** Used in mode `allow`, and as exceptions to `deny`. A wildcard covers the names below it, not the name itself. */
  readonly allow: readonly AllowRule[]
  /** Ranges that mode `public` does not open, except for what `allow` names. */
  readonly deny?: readonly AllowRule[] | undefined
  readonly secrets: readonly EdgeSecret[]
  /** The API key whose share of connections this sandbox uses. Default: a share of its own. */
  readonly owner?: string
}

/** A secret that the edge puts into requests. Inside the sandbox there is only `placeholder`. */
export interface EdgeSecret {
  readonly placeholder: string
  readonly value: string
  /** `example.com` or `*.example.com`. `value` is sent to these hosts only. */
  readonly domains: readonly string[]
  /** Why it cannot be used. The edge refuses requests with its placeholder and shows this text inside the sandbox. */
  readonly problem?: string
}
