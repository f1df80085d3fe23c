import type { Material } from '@dormouse/contracts'
import type { Access } from '../access/access.ts'
import type { Caller } from '../access/caller.ts'
import type { PortService } from '../ports/port-service.ts'
import type { Runs } from '../runs/runs.ts'
import type { Sandboxes } from '../sandbox/service.ts'
import type { ScrubView } from '../scrub/scrub-view.ts'
import type { Page } from '../store/page.ts'
import type { NetworkPolicy, SandboxLimits, SandboxPolicy } from '../store/sandbox-rows.ts'

/** What the routes call. Everything that they throw at callers is a DormouseError. */
export interface Services {
  readonly access: Access
  readonly sandboxes: Sandboxes
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

export interface TemplateView {
  readonly name: string
  readonly description: string | undefined
  /** `building` and `failed` cannot be created from. */
  readonly state: 'building' | 'ready' | 'failed'
  readonly source: 'built_in' | 'description' | 'snapshot'
  /** The template that it was built on. */
  readonly from: string | undefined
  readonly snapshotId: string | undefined
  readonly createdAt: string
  readonly bytes: number | undefined
  /** undefined: they were not recorded. */
  readonly materials: { readonly count: number; readonly sha256: string } | undefined
  /** What the build said last, without host paths. */
  readonly logTail: string | undefined
  readonly error: string | undefined
}

export interface TemplateDescription {
  readonly name: string
  readonly description?: string | undefined
  /** The template to build on; the default one when none is named. */
  readonly from?: string | undefined
  /** What the build may reach; where packages come from when it does not say. */
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
  /** Every package that it was built from. Throws `template_not_found`, and `not_found` when that was not recorded. */
  materials(name: string, caller: Caller): Promise<TemplateMaterials>
  /**
   * Begins to build in a sandbox of the caller; the answer is `building`. Throws `name_taken`, `template_not_found` for the one that it
   * builds on, `limit_reached`, `overloaded`.
   */
  build(description: TemplateDescription, caller: Caller): Promise<TemplateView>
  /** Throws `name_taken`, `not_found` for the snapshot. The snapshot may be deleted afterwards. */
  fromSnapshot(
    request: { name: string; description?: string | undefined; snapshotId: string },
    caller: Caller,
  ): Promise<TemplateView>
  /** Throws `in_use` while sandboxes need its files, `template_not_found`. A build under way is ended. */
  delete(name: string, caller: Caller): Promise<void>
}

export interface SecretView {
  readonly name: string
  readonly placeholder: string
  readonly domains: readonly string[]
  readonly createdAt: string
  readonly updatedAt: string
  /** Ids of the sandboxes that have it. */
  readonly usedBy: readonly string[]
}

/** No answer has a value. */
export interface Secrets {
  /** Throws `name_taken`, `limit_reached`. */
  create(request: { name: string; value: string; domains: readonly string[] }, caller: Caller): SecretView
  list(query: { limit: number; cursor?: string }, caller: Caller): Page<SecretView>
  get(name: string, caller: Caller): SecretView
  /** Post: requests that begin from now on go by it. */
  update(
    name: string,
    change: { value?: string; domains?: readonly string[] },
    caller: Caller,
  ): Promise<SecretView>
  /** Throws `in_use` while a sandbox has it; with `force` it is taken from them first. */
  delete(name: string, options: { force: boolean }, caller: Caller): Promise<void>
}

export interface VolumeView {
  readonly name: string
  readonly createdAt: string
  readonly bytes: number | undefined
  readonly files: number | undefined
  /** What it may hold. */
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

export interface UsageNumbers {
  readonly runningSeconds: number
  readonly cpuSeconds: number
  readonly memoryGbSeconds: number
  /** Bytes that several share are counted once in the total, and by share in each. */
  readonly storedGbHours: number
  readonly wakes: number
  readonly forks: number
  /** From the price table in the config. */
  readonly cost: number
  /** What the same history would have cost without standby. */
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
  /** Begins a pass, unless one is under way. */
  start(): ScrubView
}

export interface Metrics {
  readonly contentType: string
  /** Numbers of the whole host. Without ids, names or anything else of a tenant: any key may read them. */
  text(): Promise<string>
}

export interface Health {
  /** `stopping`: it no longer takes requests, load balancers should look elsewhere. */
  check(): { readonly status: 'ok' | 'starting' | 'stopping'; readonly version: string }
}
