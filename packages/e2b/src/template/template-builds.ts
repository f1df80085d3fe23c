import { setTimeout as sleep } from 'node:timers/promises'
import { DormouseError, hasErrorCode } from '@dormouse/contracts'
import type { TemplateAnswer } from '@dormouse/contracts/http'
import type { Backend, BuildDescription, Caller, Key } from '../backend.ts'
import { ApiError } from '../http/api-error.ts'
import { imageUserSteps, type OwnTemplate } from '../sandbox/own-template.ts'
import type { StartBody } from './build-body.ts'
import { type BuildLine, BuildLogs } from './build-logs.ts'
import type { TemplateFiles } from './template-files.ts'
import {
  BUILDS_MAX,
  type BuildRecord,
  type BuildRef,
  buildsWithTag,
  splitName,
  type TemplateRecord,
  TemplateRecords,
} from './template-records.ts'
import { DEFAULT_USER, LOGIN_SHELL, quote, translateSteps } from './translate-steps.ts'

const QUEUE_MAX = 100
const RETRY_MS = 500
const READY_TIMEOUT_MS = 300_000
/** E2B's own images, for which its template stands. */
const OWN_IMAGE = /^(?:docker\.io\/)?e2bdev\/(?:base|code-interpreter)(?::|@|$)/
const SERVER_ENDED = 'The server ended before the build started'

export interface BuildStatus {
  readonly status: 'waiting' | 'building' | 'ready' | 'error'
  readonly reason?: { readonly message: string; readonly step?: string } | undefined
}

export interface ResolvedTemplate {
  readonly template: string
  readonly cpuCount: number
  readonly memoryMB: number
}

/** Builds of templates that clients of E2B ask for, as templates of Dormouse. */
export class TemplateBuilds {
  readonly records: TemplateRecords
  readonly files: TemplateFiles
  readonly #backend: Pick<Backend, 'templates' | 'policyDefaults' | 'log'>
  readonly #ownTemplate: OwnTemplate
  readonly #logs = new BuildLogs()
  readonly #queued = new Map<string, AbortController>()

  constructor(
    backend: Pick<Backend, 'templates' | 'policyDefaults' | 'items' | 'log'>,
    parts: { files: TemplateFiles; ownTemplate: OwnTemplate },
  ) {
    this.#backend = backend
    this.records = new TemplateRecords(backend.items)
    this.files = parts.files
    this.#ownTemplate = parts.ownTemplate
  }

  /** Starts a build, or queues it while others run. Throws `ApiError` for steps that cannot be translated. */
  start(ref: BuildRef, body: StartBody, key: Key): void {
    const { build } = ref
    if (build.state !== 'asked') throw new ApiError(400, `Build '${build.buildId}' has already been started`)
    if (this.#queued.size >= QUEUE_MAX) throw new ApiError(429, 'Too many builds are waiting')
    const { description, needsOwn, steps, user } = this.#describe(ref, body, key)
    this.records.change(ref, { state: 'queued', steps, user }, key)
    const stop = new AbortController()
    this.#queued.set(build.buildId, stop)
    void this.#run(ref, { description, needsOwn }, { key, signal: stop.signal })
      .catch((error: unknown) => {
        this.#backend.log.error(
          { err: error, build: build.buildId },
          'a build of an E2B client did not start',
        )
        this.records.change(ref, { state: 'failed', error: reasonOf(error) }, key)
      })
      .finally(() => this.#queued.delete(build.buildId))
  }

  async statusOf({ build }: BuildRef, caller: Caller): Promise<BuildStatus> {
    if (build.state === 'failed') return { status: 'error', reason: { message: build.error ?? 'failed' } }
    if (build.state === 'asked') return { status: 'waiting' }
    const made = await this.#find(build, caller)
    if (made === undefined)
      return this.#queued.has(build.buildId) ? { status: 'building' } : failed(SERVER_ENDED)
    if (made.state === 'building') return { status: 'building' }
    if (made.state === 'ready') return { status: 'ready' }
    return failed(made.error ?? 'The build failed', this.#failedStep(build, made))
  }

  /** Lines of a build. After a restart of the server only the last ones are left. */
  async linesOf({ build }: BuildRef, caller: Caller): Promise<readonly BuildLine[]> {
    const known = this.#logs.find(build.buildId)
    if (known !== undefined) return known
    const made = await this.#find(build, caller)
    const at = build.createdAtMs
    return (made?.logTail ?? '').split('\n').flatMap((text) => (text === '' ? [] : [{ at, text }]))
  }

  /** What sandboxes start from. Undefined: no client of E2B built a template of this name. Throws `ApiError` 404. */
  async resolve(ref: string, caller: Caller): Promise<ResolvedTemplate | undefined> {
    const template = this.records.find(ref, caller)
    if (template === undefined) return undefined
    return this.#readyBuild(template, splitName(ref).tag, caller)
  }

  /** Throws `ApiError` 404 unless a build with the tag is ready. */
  async #readyBuild(template: TemplateRecord, tag: string | undefined, caller: Caller): Promise<BuildRecord> {
    const tagged = buildsWithTag(template, tag)
    for (const build of tagged.length === 0 && tag === undefined ? template.builds : tagged)
      if ((await this.statusOf({ template, build }, caller)).status === 'ready') return build
    throw new ApiError(404, `tag '${tag ?? 'default'}' does not exist for template '${template.name}'`)
  }

  /** Gives tags to the build that the target names. */
  async assign(target: string, tags: readonly string[], caller: Caller): Promise<BuildRecord> {
    const template = this.records.get(target, caller)
    const build = await this.#readyBuild(template, splitName(target).tag, caller)
    const nowMs = Date.now()
    const added = Object.fromEntries(tags.map((tag) => [tag, nowMs]))
    this.records.change({ template, build }, { tags: { ...build.tags, ...added } }, caller)
    return { ...build, tags: { ...build.tags, ...added } }
  }

  /** Throws `in_use` while sandboxes need it; then the template stays. */
  async delete(template: TemplateRecord, caller: Caller): Promise<void> {
    for (const build of template.builds) {
      this.#queued.get(build.buildId)?.abort()
      await this.#remove(build, caller)
    }
    this.records.delete(template, caller)
  }

  #describe({ template, build }: BuildRef, body: StartBody, key: Key) {
    const { fromImage, fromTemplate, fromImageRegistry: registry } = body
    if (registry != null && registry.type !== 'registry')
      throw new ApiError(
        400,
        `fromImageRegistry: '${registry.type}' is not available here; use a name and a password`,
      )
    const isOwn = fromTemplate == null && (fromImage == null || OWN_IMAGE.test(fromImage))
    const base = fromTemplate == null ? undefined : this.#baseOf(fromTemplate, key)
    const isImage = !isOwn && base === undefined
    const needsOwn = isOwn || base?.isOwn === true
    const startUser = [{ user: DEFAULT_USER }, { workdir: `/home/${DEFAULT_USER}` }] as const
    const { steps, origins, user } = translateSteps(body.steps ?? [], {
      user: base?.user ?? DEFAULT_USER,
      before: [...(isImage ? imageUserSteps() : []), ...(base?.user === undefined ? startUser : [])],
      isForced: body.force === true,
      uploadOf: (hash) => this.files.uploadOf(hash, key),
    })
    const start = body.startCmd || (body.readyCmd ? 'true' : undefined)
    const inShell = (command: string) => [...LOGIN_SHELL, command].map(quote).join(' ')
    const description: BuildDescription = {
      name: build.template,
      description: `For clients of E2B: ${template.name}, build ${build.buildId}`,
      ...{ packages: [], pip: [], commands: [], preload: [] },
      ...(isImage ? {} : { from: base?.template ?? this.#ownTemplate.name }),
      network: this.#backend.policyDefaults.network,
      recipe: {
        steps,
        startsServices: false,
        ...(isImage && fromImage != null && { image: fromImage }),
        ...(isImage &&
          registry?.username && {
            registryAuth: { username: registry.username, password: registry.password ?? '' },
          }),
        ...(start !== undefined && { start: `exec ${inShell(start)}` }),
        ...(body.readyCmd && { ready: { command: inShell(body.readyCmd), timeoutMs: READY_TIMEOUT_MS } }),
      },
    }
    return { description, needsOwn, steps: origins, user }
  }

  #baseOf(ref: string, caller: Caller): { template: string; user?: string | undefined; isOwn: boolean } {
    const { name, tag } = splitName(ref)
    const record = this.records.find(ref, caller)
    const [build] =
      record === undefined ? [] : buildsWithTag(record, tag).filter(({ state }) => state === 'started')
    if (build !== undefined)
      return { template: build.template, user: build.user ?? DEFAULT_USER, isOwn: false }
    if (record !== undefined)
      throw new ApiError(404, `tag '${tag ?? 'default'}' does not exist for template '${name}'`)
    const isOwn = this.#ownTemplate.isOwn(name)
    return { template: isOwn ? this.#ownTemplate.name : name, isOwn }
  }

  async #run(
    ref: BuildRef,
    { description, needsOwn }: { description: BuildDescription; needsOwn: boolean },
    { key, signal }: { key: Key; signal: AbortSignal },
  ): Promise<void> {
    const { templates } = this.#backend
    if (needsOwn) await this.#ownTemplate.ensure(key)
    for (;;) {
      signal.throwIfAborted()
      try {
        await templates.build(description, key)
        break
      } catch (error) {
        if (!hasErrorCode(error, 'overloaded')) throw error
        await sleep(RETRY_MS, undefined, { signal })
      }
    }
    this.records.change(ref, { state: 'started' }, key)
    await this.#logs.follow(ref.build.buildId, await templates.log(description.name, -1, key, signal))
    await this.#tidy(ref.template.templateId, key)
  }

  /** Removes builds that have failed or that no tag leads to. One that sandboxes still need waits for the next build. */
  async #tidy(templateId: string, caller: Caller): Promise<void> {
    const template = this.records.find(templateId, caller)
    if (template === undefined) return
    const named = new Set<string>()
    for (const tag of new Set(template.builds.flatMap(({ tags }) => Object.keys(tags))))
      for (const build of buildsWithTag(template, tag)) {
        named.add(build.buildId)
        if ((await this.statusOf({ template, build }, caller)).status === 'ready') break
      }
    const old = template.builds.filter(({ buildId }, at) => !named.has(buildId) || at >= BUILDS_MAX)
    const gone = new Set<string>()
    for (const build of old) {
      if (this.#queued.has(build.buildId)) continue
      const isRemoved = await this.#remove(build, caller).then(
        () => true,
        () => false,
      )
      if (isRemoved) gone.add(build.buildId)
    }
    const latest = this.records.find(templateId, caller)
    if (latest === undefined || gone.size === 0) return
    this.records.put({ ...latest, builds: latest.builds.filter(({ buildId }) => !gone.has(buildId)) }, caller)
  }

  async #remove({ template }: BuildRecord, caller: Caller): Promise<void> {
    await this.#backend.templates.delete(template, caller).catch((error: unknown) => {
      if (!hasErrorCode(error, 'template_not_found')) throw error
    })
  }

  async #find({ template }: BuildRecord, caller: Caller): Promise<TemplateAnswer | undefined> {
    try {
      return await this.#backend.templates.get(template, caller)
    } catch (error) {
      if (hasErrorCode(error, 'template_not_found')) return undefined
      throw error
    }
  }

  /** The log counts the steps that run in a sandbox: `[2/5] RUN make`. */
  #failedStep({ buildId, steps }: BuildRecord, { failedStep, logTail }: TemplateAnswer): string {
    const lines = this.#logs.find(buildId)?.map(({ text }) => text) ?? logTail?.split('\n') ?? []
    const last = lines.findLast((line) => /^\[\d+\/\d+\] /.test(line))
    if (last === undefined) return 'base'
    if (failedStep === undefined) return 'finalize'
    const origin = steps?.[Number(/\d+/.exec(last)?.[0] ?? 1) - 1] ?? 0
    return origin === 0 ? 'base' : String(origin)
  }
}

function failed(message: string, step?: string): BuildStatus {
  return { status: 'error', reason: { message, ...(step !== undefined && { step }) } }
}

function reasonOf(error: unknown): string {
  if (error instanceof ApiError || error instanceof DormouseError) return error.message
  return 'The build could not be started'
}
