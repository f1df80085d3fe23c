import type { TemplateAnswer, TemplateMaterialsAnswer } from '@dormouse/contracts/http'
import type { Caller } from '../access/caller.ts'
import type { Page } from '../store/page.ts'
import type { NetworkPolicy } from '../store/sandbox-rows.ts'

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

export interface Templates {
  list(query: { limit: number; cursor?: string }, caller: Caller): Page<TemplateAnswer>
  /** Throws `template_not_found`. */
  get(name: string, caller: Caller): TemplateAnswer
  /** Every package that it was built from. Throws `template_not_found`, and `not_found` when that was not recorded. */
  materials(name: string, caller: Caller): Promise<TemplateMaterialsAnswer>
  /**
   * Begins to build in a sandbox of the caller; the answer is `building`. Throws `name_taken`, `template_not_found` for the one that it
   * builds on, `limit_reached`, `overloaded`.
   */
  build(description: TemplateDescription, caller: Caller): Promise<TemplateAnswer>
  /** Throws `name_taken`, `not_found` for the snapshot. The snapshot may be deleted afterwards. */
  fromSnapshot(
    request: { name: string; description?: string | undefined; snapshotId: string },
    caller: Caller,
  ): Promise<TemplateAnswer>
  /** Throws `in_use` while sandboxes need its files, `template_not_found`. A build under way is ended. */
  delete(name: string, caller: Caller): Promise<void>
}
