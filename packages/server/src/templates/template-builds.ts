import {
  DormouseError,
  type Material,
  type Materials,
  type SandboxId,
  type SnapshotId,
} from '@dormouse/contracts'
import type { Caller } from '../access/caller.ts'
import type { NetworkPolicy, SandboxLimits } from '../store/sandbox-rows.ts'
import { BuildLog } from './build-log.ts'
import type { BuildSandboxes } from './build-sandbox.ts'
import { type BuildPrograms, buildScripts } from './build-scripts.ts'
import { type BuildRecipe, buildRecipe, type RecipeServices } from './recipe/build-recipe.ts'
import { StepFailed } from './recipe/run-recipe.ts'
import { runStep, type StepParts, warmUp } from './run-step.ts'
import type { TemplateImage } from './template-rows.ts'
import type { TemplateDescription } from './templates.ts'

/** The settings of every build. */
export interface BuilderSettings {
  readonly limitsOf: (keyId: string) => SandboxLimits
  /** The default network policy: package registries only. */
  readonly network: NetworkPolicy
  /** The time limit of a whole build. */
  readonly timeoutMs: number
  readonly atOnce: number
}

export interface TemplateBuildsOptions {
  readonly sandboxes: BuildSandboxes
  /** Throws `limit_reached` when this owner may not have one more sandbox with this much memory. */
  readonly requireQuota: (owner: string, memoryBytes: number) => void
  /** Throws `invalid_argument` for a rule that can never allow anything on this host. */
  readonly checkNetwork: (policy: NetworkPolicy) => void
  readonly dropSnapshot: (id: SnapshotId) => Promise<void>
  readonly settings: BuilderSettings
  readonly programs: BuildPrograms
  readonly parseMaterials: (listing: string, base: readonly Material[]) => Materials
  readonly recipes: RecipeServices
}

export interface BuildRequest {
  readonly description: TemplateDescription
  readonly base: string
  /** The packages of the base template. */
  readonly baseMaterials: readonly Material[]
  /** Modules that sandboxes of the base start with. */
  readonly inherited: readonly string[]
  readonly caller: Caller
  /** Called before a sandbox of the build exists. Throws to stop the build. */
  readonly announce: (id: SandboxId) => void
  /** Of a build from an image, a Dockerfile or steps. */
  readonly recipe?: Pick<BuildRecipe, 'recipe' | 'openTemplate'> | undefined
}

export interface Built {
  /** Files, memory and processes, with all modules imported. */
  readonly snapshotId: SnapshotId
  readonly filesId: SnapshotId
  readonly materials: Materials | undefined
  readonly image?: TemplateImage | undefined
}

/** A running build. `ended` rejects with the reason; then nothing of the build is left. */
export interface RunningBuild {
  readonly owner: string
  readonly name: string
  readonly log: BuildLog
  readonly ended: Promise<Built>
  stop(reason: string): void
}

/** The share of all builds that one key may have, so that other keys find room. */
const SHARE_OF_A_KEY = 0.5

/** Builds templates in sandboxes of the calling key, within its quotas and the builder's limits. */
export class TemplateBuilds {
  readonly #options: TemplateBuildsOptions
  readonly #running = new Set<RunningBuild>()

  constructor(options: TemplateBuildsOptions) {
    this.#options = options
  }

  find(owner: string, name: string): RunningBuild | undefined {
    return [...this.#running].find((build) => build.owner === owner && build.name === name)
  }

  /** Throws `overloaded`, `limit_reached`, `invalid_argument`. */
  requireRoom({ network }: TemplateDescription, { keyId }: Caller): void {
    const { settings, requireQuota, checkNetwork } = this.#options
    const ofKey = [...this.#running].filter(({ owner }) => owner === keyId).length
    const share = Math.max(1, Math.floor(settings.atOnce * SHARE_OF_A_KEY))
    if (this.#running.size >= settings.atOnce || ofKey >= share)
      throw new DormouseError('overloaded', 'Other templates are being built.', {
        details: { retryAfterMs: 30_000 },
      })
    if (network !== undefined) checkNetwork(network)
    requireQuota(keyId, settings.limitsOf(keyId).memoryBytes)
  }

  /** Pre: `requireRoom` did not throw. */
  start(request: BuildRequest): RunningBuild {
    const { settings } = this.#options
    const stop = new AbortController()
    const timer = setTimeout(
      () => stop.abort(stopped(`The build took longer than ${settings.timeoutMs} ms.`)),
      settings.timeoutMs,
    )
    const log = new BuildLog()
    const build: RunningBuild = {
      owner: request.caller.keyId,
      name: request.description.name,
      log,
      stop: (reason) => stop.abort(stopped(reason)),
      ended: this.#build(request, log, stop.signal)
        .catch((error: unknown) => {
          throw stop.signal.aborted && !(error instanceof StepFailed) ? stop.signal.reason : error
        })
        .finally(() => {
          clearTimeout(timer)
          log.end()
          this.#running.delete(build)
        }),
    }
    this.#running.add(build)
    return build
  }

  /** Deletes the sandbox of a build that an earlier server left. */
  async removeSandbox(id: SandboxId): Promise<void> {
    await this.#options.sandboxes.find(id)?.delete()
  }

  async stopAll(reason: string): Promise<void> {
    const running = [...this.#running]
    for (const build of running) build.stop(reason)
    await Promise.allSettled(running.map(({ ended }) => ended))
  }

  async #build(request: BuildRequest, log: BuildLog, signal: AbortSignal): Promise<Built> {
    const { description, caller, announce, base: template } = request
    const { settings, sandboxes, programs } = this.#options
    const { limitsOf, timeoutMs } = settings
    const network = description.network ?? settings.network
    const parts: StepParts = {
      ...{ sandboxes, log, signal, announce },
      builder: { caller, limits: limitsOf(caller.keyId), network, timeoutMs },
    }
    if (request.recipe !== undefined) {
      const { inherited } = request
      const { preload, recipe: wanted = {} } = description
      const recipe = { ...request.recipe, request: wanted, inherited, preload }
      return { ...(await buildRecipe(this.#options.recipes, parts, recipe)), materials: undefined }
    }
    let listing = ''
    const scripts = buildScripts(description, programs, (text) => {
      listing = text
    })
    const filesId = await runStep(parts, { origin: { template }, scripts })
    try {
      const origin = { template, files: filesId }
      const { inherited } = request
      const snapshotId = await warmUp(parts, { origin, inherited, preload: description.preload })
      return { snapshotId, filesId, materials: this.#materials(listing, request, log) }
    } catch (error) {
      await this.#options.dropSnapshot(filesId)
      throw error
    }
  }

  #materials(listing: string, { baseMaterials }: BuildRequest, log: BuildLog): Materials | undefined {
    try {
      return this.#options.parseMaterials(listing, baseMaterials)
    } catch {
      log.say('The list of packages could not be read and is not recorded.')
      return undefined
    }
  }
}

function stopped(reason: string): DormouseError {
  return new DormouseError('setup_failed', reason)
}
