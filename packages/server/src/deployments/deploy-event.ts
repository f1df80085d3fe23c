import type { ServiceId } from '@dormouse/contracts'

/** What happened to a version, for `GET /v1/events` and webhooks. */
export type DeployEvent = 'deploy.started' | 'deploy.ready' | 'deploy.failed' | 'deploy.rolled_back'

export interface DeployData {
  readonly service: string
  readonly serviceId: ServiceId
  readonly version: number
  readonly error?: string
}
