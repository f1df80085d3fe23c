import type { SandboxAnswer, ServerReportAnswer } from '@dormouse/contracts/http'
import type { Access } from '../access/access.ts'
import type { Caller } from '../access/caller.ts'
import type { Sessions } from '../access/sessions.ts'
import type { CreateElsewhere } from '../cluster/create-elsewhere.ts'
import type { Nodes } from '../cluster/nodes.ts'
import type { Deployments } from '../deployments/deployments.ts'
import type { FleetCalls } from '../fleet/fleet.ts'
import type { Jobs } from '../jobs/jobs.ts'
import type { LogLine } from '../log-lines.ts'
import type { Metrics } from '../metrics/metrics.ts'
import type { PortService } from '../ports/port-service.ts'
import type { Runs } from '../runs/runs.ts'
import type { SandboxCalls } from '../sandbox/sandbox-service.ts'
import type { Schedules } from '../schedules/schedule-service.ts'
import type { ScrubView } from '../scrub/scrub-view.ts'
import type { Secrets } from '../secrets/secrets.ts'
import type { Page } from '../store/page.ts'
import type { SandboxLimits, SandboxPolicy, SandboxQuery } from '../store/sandbox-rows.ts'
import type { Uploads } from '../templates/recipe/uploads.ts'
import type { Templates } from '../templates/templates.ts'
import type { Usage } from '../usage/usage.ts'
import type { Volumes } from '../volumes/volumes.ts'
import type { Webhooks } from '../webhooks/webhook-service.ts'

/** The services that routes call. Errors for callers are always DormouseErrors. */
export interface Services {
  readonly access: Access
  readonly sessions: Sessions
  readonly fleet: FleetCalls
  readonly sandboxes: SandboxCalls
  /** Defaults for sandboxes created without a policy. */
  readonly policyDefaults: Pick<
    SandboxPolicy,
    'idleTimeoutMs' | 'storeAfterMs' | 'maxBackgroundMs' | 'network' | 'connections'
  >
  /** Default limits of sandboxes of this caller. */
  readonly defaultLimits: (caller: Caller) => SandboxLimits
  readonly nodes: Nodes
  /** Adds the sandboxes of other hosts to a page. Undefined outside a cluster. */
  readonly elsewhere?: Elsewhere | undefined
  /** Has another host make a sandbox that should be there. Undefined outside a cluster. */
  readonly placement?: CreateElsewhere | undefined
  readonly runs: Runs
  readonly jobs: Jobs
  readonly schedules: Schedules
  readonly webhooks: Webhooks
  readonly templates: Templates
  readonly uploads: Pick<Uploads, 'put' | 'find'>
  readonly volumes: Volumes
  readonly deployments: Deployments
  readonly secrets: Secrets
  readonly ports: PortService
  readonly ssh: Ssh
  readonly usage: Usage
  readonly scrub: ScrubService
  readonly metrics: Metrics
  readonly health: Health
  readonly server: ServerInsight
}

export interface Elsewhere {
  /** A sandbox of another host, as the directory knows it. */
  find(id: string): SandboxAnswer | undefined
  merge(page: Page<SandboxAnswer>, query: SandboxQuery, owner: string | undefined): Page<SandboxAnswer>
}

export interface SshEndpoint {
  /** The port it listens on. */
  readonly host: string
  readonly port: number
  /** For `known_hosts`. */
  readonly hostKey: string
  readonly fingerprint: string
}

export interface SshKeyView {
  readonly name: string
  /** The API key that owns it. */
  readonly keyId: string
  readonly type: string
  readonly fingerprint: string
  readonly publicKey: string
  readonly confirmed: boolean
  /** The user name with which its holder confirms it; absent once confirmed. */
  readonly confirmAs?: string
  readonly createdAt: string
}

export interface Ssh {
  /** Undefined when SSH is off. */
  endpoint(): SshEndpoint | undefined
  /** Throws `invalid_argument`, `name_taken`, `already_exists`, `limit_reached`. */
  addKey(request: { name: string; publicKey: string }, caller: Caller): SshKeyView
  listKeys(query: { limit: number; cursor?: string }, caller: Caller): Page<SshKeyView>
  /** Throws `not_found`, and `conflict` when several match for an admin. */
  getKey(name: string, caller: Caller): SshKeyView
  /** Ends connections that use it. */
  deleteKey(name: string, caller: Caller): void
}

export interface ScrubService {
  view(): ScrubView
  /** Starts a pass unless one is running. */
  start(): ScrubView
}

export interface ServerInsight {
  report(): Promise<ServerReportAnswer>
  /** Ends when `signal` aborts; without `follow` at the present end. */
  log(options: { after: number; follow: boolean; signal: AbortSignal }): AsyncIterable<LogLine>
}

export interface Health {
  /** `stopping`: it refuses requests, and load balancers should use another server. */
  check(): { readonly status: 'ok' | 'starting' | 'stopping'; readonly version: string }
}
