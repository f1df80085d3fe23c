import type { Materials } from '@dormouse/contracts'
import type { MaterialsSummary } from './template-rows.ts'

/** A template that is installed on this host. */
export interface HostTemplate {
  readonly name: string
  readonly description: string | undefined
  readonly createdAt: string
  readonly bytes: number
  /** Modules that its sandboxes start with. */
  readonly preload: readonly string[]
  readonly materials: MaterialsSummary | undefined
}

/** Templates installed on this host, each a root file system. */
export interface HostTemplates {
  list(): Promise<readonly HostTemplate[]>
  /** Undefined when they were not recorded. */
  materials(name: string): Promise<Materials | undefined>
  remove(name: string): Promise<void>
}
