import type { Isolation } from '@dormouse/contracts'
import type { TemplateAnswer, TemplateMaterialsAnswer } from '@dormouse/contracts/http'
import type { Caller } from '../access/caller.ts'
import type { Page } from '../store/page.ts'
import type { NetworkPolicy } from '../store/sandbox-rows.ts'
import type { LogLine } from './build-log.ts'
import type { RecipeRequest } from './recipe/recipe-request.ts'
import type { FailedStep } from './template-rows.ts'

export interface TemplateDescription {
  readonly name: string
  readonly description?: string | undefined
  /** The base template. Default: the default template. */
  readonly from?: string | undefined
  /** What the build may reach. Default: package registries only. */
  readonly network?: NetworkPolicy | undefined
  /** Default for sandboxes of the template. The build itself has `process`. */
  readonly isolation?: Isolation | undefined
  readonly packages: readonly string[]
  readonly pip: readonly string[]
  readonly commands: readonly string[]
  readonly preload: readonly string[]
  /** An image, a Dockerfile or steps. */
  readonly recipe?: RecipeRequest | undefined
  /** Files of the host that the build gets before anything else. Only for built-in templates. */
  readonly uploads?: readonly Upload[]
  /** Wheels of the host that pip installs after the commands, without an index. Only for built-in templates. */
  readonly wheels?: readonly string[]
}

export interface Upload {
  readonly file: string
  readonly path: string
}

export interface Templates {
  list(query: { limit: number; cursor?: string }, caller: Caller): Promise<Page<TemplateAnswer>>
  /** Throws `template_not_found`. */
  get(name: string, caller: Caller): Promise<TemplateAnswer>
  /** The packages of a template. Throws `template_not_found`, and `not_found` when they were not recorded. */
  materials(name: string, caller: Caller): Promise<TemplateMaterialsAnswer>
  /**
   * Starts a build in a sandbox of the caller and returns the template in state `building`. Throws `name_taken`,
   * `template_not_found` for the base, `limit_reached`, `overloaded`.
   */
  build(description: TemplateDescription, caller: Caller): Promise<TemplateAnswer>
  /** Throws `name_taken`, `not_found` for the snapshot. The snapshot may be deleted afterwards. */
  fromSnapshot(
    request: { name: string; description?: string | undefined; snapshotId: string },
    caller: Caller,
  ): Promise<TemplateAnswer>
  /** Lines of the build as they come, or the end of the log of one that has ended. Throws `template_not_found`. */
  log(name: string, after: number, caller: Caller, signal: AbortSignal): Promise<AsyncIterable<LogLine>>
  /** The state before the step that failed. Throws `template_not_found`, `conflict` when no step of it failed. */
  failedStep(name: string, caller: Caller): FailedStep
  /**
   * Throws `in_use` while sandboxes need its files, `template_not_found`, and `scope_missing` for a template of the host
   * unless the caller is an administrator. Stops a running build.
   */
  delete(name: string, caller: Caller): Promise<void>
}
