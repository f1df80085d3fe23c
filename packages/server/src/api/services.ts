import type { Material } from '@dormouse/contracts'
import type { Access } from '../access/access.ts'
import type { Caller } from '../access/caller.ts'
import type { PortService } from '../ports/port-service.ts'
import type { Runs } from '../runs/runs.ts'
import type { SandboxCalls } from '../sandbox/sandbox-service.ts'
import type { ScrubView } from '../scrub/scrub-view.ts'
import type { Page } from '../store/page.ts'
import type { NetworkPolicy, SandboxLimits, SandboxPolicy } from '../store/sandbox-rows.ts'

/** The services that routes call. Errors for callers are always DormouseErrors. */
export interface Services {
  readonly access: Access
  readonly sandboxes: SandboxCalls
  /** Defaults for sandboxes created without a policy. */
  readonly policyDefaults: Pick<SandboxPolicy, 'idleTimeoutMs' | 'storeAfterMs' | 'network'>
  /** Default limits of sandboxes of this caller. */
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

export interface TemplateView {
  readonly name: string
  readonly description: string | undefined
  /** `building` and `failed` templates cannot be used to create sandboxes. */
  readonly state: 'building' | 'ready' | 'failed'
  readonly source: 'built_in' | 'description' | 'snapshot'
  /** The base template. */
  readonly from: string | undefined
  readonly snapshotId: string | undefined
  readonly createdAt: string
  readonly bytes: number | undefined
  /** Undefined when they were not recorded. */
  readonly materials: { readonly count: number; readonly sha256: string } | undefined
  /** The end of the build's output, without host paths. */
  readonly logTail: string | undefined
  readonly error: string | undefined
}

export interface TemplateDescription {
  readonly name: string
  readonly description?: string | undefined
  /** The base template. Default: the default template. */
  readonly from?: string | undefined
  /** What the build may reach. Default: package registries only. */
  readonly network?: NetworkPolicy | undefined
  readonly packages: readonly string[]
  readonly pip: readonly string[]
  readonly commands: readonly string[]
  readonly preload: readonly string[]
}

export interface TemplateMaterials {
  readonly count: number
  readonly sha256: string
  readonly items: readonly Material[]
}

export interface Templates {
  list(query: { limit: number; cursor?: string }, caller: Caller): Page<TemplateView>
  /** Throws `template_not_found`. */
  get(name: string, caller: Caller): TemplateView
  /** The packages of a template. Throws `template_not_found`, and `not_found` when they were not recorded. */
  materials(name: string, caller: Caller): Promise<TemplateMaterials>
  /**
   * Starts a build in a sandbox of the caller and returns the template in state `building`. Throws `name_taken`,
   * `template_not_found` for the base, `limit_reached`, `overloaded`.
   */
  build(description: TemplateDescription, caller: Caller): Promise<TemplateView>
  /** Throws `name_taken`, `not_found` for the snapshot. The snapshot may be deleted afterwards. */
  fromSnapshot(
    request: { name: string; description?: string | undefined; snapshotId: string },
    caller: Caller,
  ): Promise<TemplateView>
  /** Throws `in_use` while sandboxes need its files, and `template_not_found`. Stops a build in progress. */
  delete(name: string, caller: Caller): Promise<void>
}

export interface SecretView {
  readonly name: string
  readonly placeholder: string
  readonly domains: readonly string[]
  readonly createdAt: string
  readonly updatedAt: string
  /** Ids of the sandboxes that use it. */
  readonly usedBy: readonly string[]
}

/** Secrets without their values. */
export interface Secrets {
  /** Throws `name_taken`, `limit_reached`. */
  create(request: { name: string; value: string; domains: readonly string[] }, caller: Caller): SecretView
  list(query: { limit: number; cursor?: string }, caller: Caller): Page<SecretView>
  get(name: string, caller: Caller): SecretView
  /** Post: new requests use the change. */
  update(
    name: string,
    change: { value?: string; domains?: readonly string[] },
    caller: Caller,
  ): Promise<SecretView>
  /** Throws `in_use` while a sandbox uses it; `force` removes it from them first. */
  delete(name: string, options: { force: boolean }, caller: Caller): Promise<void>
}

export interface VolumeView {
  readonly name: string
  readonly createdAt: string
  readonly bytes: number | undefined
  readonly files: number | undefined
  /** Its size limit. */
  readonly sizeBytes: number
  /** Ids of the caller's sandboxes that mount it. */
  readonly usedBy: readonly string[]
}

export interface Volumes {
  /** Throws `name_taken`. */
  create(request: { name: string; sizeBytes?: number }, caller: Caller): Promise<VolumeView>
  list(query: { limit: number; cursor?: string }, caller: Caller): Page<VolumeView>
  get(name: string, caller: Caller): Promise<VolumeView>
  update(name: string, change: { sizeBytes: number }, caller: Caller): VolumeView
  /** Throws `in_use` while a sandbox mounts it. */
  delete(name: string, caller: Caller): Promise<void>
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

export interface UsageNumbers {
  readonly runningSeconds: number
  readonly cpuSeconds: number
  readonly memoryGbSeconds: number
  /** Shared bytes count once in the total, and proportionally in each sandbox. */
  readonly storedGbHours: number
  readonly wakes: number
  readonly forks: number
  /** From the price table in the settings. */
  readonly cost: number
  /** What the same usage would have cost without standby. */
  readonly alwaysOnCost: number
}

export interface UsageReport {
  readonly from: string
  readonly to: string
  readonly currency: string
  readonly total: UsageNumbers
  readonly sandboxes: readonly (UsageNumbers & {
    readonly sandboxId: string
    readonly name: string | undefined
    readonly deleted: boolean
  })[]
}

export interface Usage {
  report(
    query: { from?: string | undefined; to?: string | undefined; sandboxId?: string | undefined },
    caller: Caller,
  ): Promise<UsageReport>
}

export interface ScrubService {
  view(): ScrubView
  /** Starts a pass unless one is running. */
  start(): ScrubView
}

export interface Metrics {
  readonly contentType: string
  /** Numbers of the whole host, without ids, names or other data of a tenant: any key may read them. */
  text(): Promise<string>
}

export interface Health {
  /** `stopping`: it refuses requests, and load balancers should use another server. */
  check(): { readonly status: 'ok' | 'starting' | 'stopping'; readonly version: string }
}
