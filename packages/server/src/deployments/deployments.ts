import type { DeployServiceRequest, ServiceAnswer, ServiceLogLineAnswer } from '@dormouse/contracts/http'
import type { Caller } from '../access/caller.ts'
import type { Page } from '../store/page.ts'
import type { Lease } from './live-service.ts'
import type { ReadLines } from './service-log.ts'
import type { SettingsChange } from './service-settings.ts'

/** A service as the API shows it. The address depends on how the caller reaches the server. */
export type ServiceView = Omit<ServiceAnswer, 'url' | 'pathUrl'>

/**
 * Services are named by id or, for the caller's own, by name. All methods throw `not_found`, also for those of others.
 */
export interface Deployments {
  /**
   * Begins to deploy a version, and makes the service if it is new. Throws `conflict` while another version is being
   * deployed, and `name_taken` when another host makes one of this name at the same time.
   */
  deploy(name: string, request: DeployServiceRequest, caller: Caller): Promise<ServiceView>
  list(query: { limit: number; cursor?: string }, caller: Caller): Page<ServiceView>
  get(ref: string, caller: Caller): ServiceView
  update(ref: string, change: SettingsChange, caller: Caller): ServiceView
  /** Resolves when requests go to the other version. Throws `conflict` when it cannot serve. */
  rollback(ref: string, version: number | undefined, caller: Caller): Promise<ServiceView>
  delete(ref: string, caller: Caller): Promise<void>
  logs(ref: string, query: ReadLines, caller: Caller): AsyncIterable<ServiceLogLineAnswer>
  /** Whether requests need no key. By id only: two keys may have given one name. */
  isPublic(id: string): boolean
  /** A replica for one request. Throws `service_unavailable`. */
  take(
    ref: string,
    caller: Caller,
    options: { session: string | undefined; signal: AbortSignal },
  ): Promise<Lease>
}
