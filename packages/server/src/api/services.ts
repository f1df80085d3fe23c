import type { Access } from '../access/access.ts'
import type { Caller } from '../access/caller.ts'
import type { Metrics } from '../metrics/metrics.ts'
import type { PortService } from '../ports/port-service.ts'
import type { Runs } from '../runs/runs.ts'
import type { SandboxCalls } from '../sandbox/sandbox-service.ts'
import type { ScrubView } from '../scrub/scrub-view.ts'
import type { Secrets } from '../secrets/secrets.ts'
import type { Page } from '../store/page.ts'
import type { SandboxLimits, SandboxPolicy } from '../store/sandbox-rows.ts'
import type { Templates } from '../templates/templates.ts'
import type { Usage } from '../usage/usage.ts'
import type { Volumes } from '../volumes/volumes.ts'

/** What the routes call. Everything that they throw at callers is a DormouseError. */
export interface Services {
  readonly access: Access
  readonly sandboxes: SandboxCalls
  /** Of sandboxes that are created without saying. */
  readonly policyDefaults: Pick<SandboxPolicy, 'idleTimeoutMs' | 'storeAfterMs' | 'network'>
  /** Limits of a sandbox of this caller that is created without any. */
  readonly defaultLimits: (caller: Caller) => SandboxLimits
  readonly runs: Runs
  readonly templates: Templates
  readonly volumes: Volumes
  readonly secrets: Secrets
  readonly ports: PortService
  readonly ssh: Ssh
  readonly usage: Usage
  readonly scrub: ScrubService
  readonly metrics: Metrics
  readonly health: Health
}

export interface SshEndpoint {
  /** What it listens on. */
  readonly host: string
  readonly port: number
  /** For `known_hosts`. */
  readonly hostKey: string
  readonly fingerprint: string
}

export interface SshKeyView {
  readonly name: string
  /** The API key that it belongs to. */
  readonly keyId: string
  readonly type: string
  readonly fingerprint: string
  readonly publicKey: string
  readonly confirmed: boolean
  /** User name with which its holder connects to confirm it; absent when that is done. */
  readonly confirmAs?: string
  readonly createdAt: string
}

export interface Ssh {
  /** Undefined: nobody can connect. */
  endpoint(): SshEndpoint | undefined
  /** Throws `invalid_argument`, `name_taken`, `already_exists`, `limit_reached`. */
  addKey(request: { name: string; publicKey: string }, caller: Caller): SshKeyView
  listKeys(query: { limit: number; cursor?: string }, caller: Caller): Page<SshKeyView>
  /** Throws `not_found`, and `conflict` for an admin who could mean several. */
  getKey(name: string, caller: Caller): SshKeyView
  /** Ends the connections that came with it. */
  deleteKey(name: string, caller: Caller): void
}

export interface ScrubService {
  view(): ScrubView
  /** Begins a pass, unless one is under way. */
  start(): ScrubView
}

export interface Health {
  /** `stopping`: it no longer takes requests, load balancers should look elsewhere. */
  check(): { readonly status: 'ok' | 'starting' | 'stopping'; readonly version: string }
}
