import { packContext, readContextFile } from './build-context/pack-context.ts'
import { pathPart } from './check.ts'
import type {
  DeployServiceBody,
  RollbackServiceBody,
  ServiceAnswer,
  ServiceLogLineAnswer,
  ServicePageAnswer,
  UpdateServiceBody,
} from './contract/index.ts'
import { DormouseError } from './error.ts'
import { eventLines } from './http/event-lines.ts'
import type { Http } from './http/http.ts'
import { Pages } from './http/pages.ts'
import type { CallOptions } from './options.ts'
import type { Templates } from './templates.ts'
import { sleep, withinTime } from './timing.ts'

export type Service = ServiceAnswer
export type DeployService = DeployServiceBody
export type UpdateService = UpdateServiceBody
export type ServiceLogLine = ServiceLogLineAnswer

export interface DeployOptions extends CallOptions {
  /**
   * A directory to deploy. Its Dockerfile says how to build it; without one, its package.json, pyproject.toml,
   * requirements.txt, main.py or index.html. Its .dockerignore applies. Only in Node.
   */
  readonly dir?: string
  /** Return when the deployment has begun, not when the version is ready. */
  readonly background?: boolean
  /** Gets every line of the build. */
  readonly onLog?: (line: string) => void
}

export interface ServiceLogsOptions extends CallOptions {
  /** Only lines with a higher `seq`. */
  readonly after?: number | undefined
  /** ISO 8601. */
  readonly since?: string | undefined
  /** Only lines that contain this text. */
  readonly search?: string | undefined
  /** At most this many of the newest lines. Default: 1000. */
  readonly tail?: number | undefined
  /** Continue with new lines until `signal` aborts. */
  readonly follow?: boolean | undefined
}

const POLL_MS = 250

/** Programs that answer requests at a stable address and sleep in between. */
export class Services {
  readonly #http: Http
  readonly #templates: Templates

  constructor(http: Http, templates: Templates) {
    this.#http = http
    this.#templates = templates
  }

  /**
   * Deploys a version and waits until requests go to it; makes the service if it is new. A version that cannot serve
   * throws `setup_failed`, and the version before keeps serving. Settings such as `replicas` and `health` take effect
   * with the version; without them they stay as they are.
   */
  async deploy(name: string, request: DeployService, options: DeployOptions = {}): Promise<Service> {
    const { dir, background = false, onLog, signal, timeoutMs } = options
    return withinTime({ signal, timeoutMs }, async (timed) => {
      const json =
        dir === undefined ? request : { ...request, ...(await this.#contextOf(dir, request, timed)) }
      const begun = await this.#http.json<Service>({
        method: 'PUT',
        path: pathOf(name),
        json,
        signal: timed,
      })
      const version = begun.versions[0]?.version ?? 0
      return background ? begun : this.#settled(name, version, { onLog, signal: timed })
    })
  }

  list({ signal, timeoutMs }: CallOptions = {}): Pages<Service> {
    return new Pages((query) =>
      this.#http.json<ServicePageAnswer>({ path: '/v1/services', query, signal, timeoutMs }),
    )
  }

  /** Wakes nothing. */
  async get(name: string, { signal, timeoutMs }: CallOptions = {}): Promise<Service> {
    return this.#http.json({ path: pathOf(name), signal, timeoutMs })
  }

  /** Changes how it is reached, scaled, checked and restarted. Makes no new version. `health: null` ends checks. */
  async update(
    name: string,
    change: UpdateService,
    { signal, timeoutMs }: CallOptions = {},
  ): Promise<Service> {
    return this.#http.json({ method: 'PATCH', path: pathOf(name), json: change, signal, timeoutMs })
  }

  /** Sends requests to another version: by default the one before. Returns when it answers. */
  async rollback(
    name: string,
    { version, signal, timeoutMs }: CallOptions & Pick<NonNullable<RollbackServiceBody>, 'version'> = {},
  ): Promise<Service> {
    const json = version === undefined ? {} : { version }
    return this.#http.json({ method: 'POST', path: `${pathOf(name)}/rollback`, json, signal, timeoutMs })
  }

  /** Deletes it with its versions, replicas and logs. */
  async delete(name: string, { signal, timeoutMs }: CallOptions = {}): Promise<void> {
    return this.#http.delete({ path: pathOf(name), signal, timeoutMs })
  }

  /** What its programs print, oldest first. Wakes nothing. */
  async *logs(
    name: string,
    { signal, after, since, search, tail, follow }: ServiceLogsOptions = {},
  ): AsyncGenerator<ServiceLogLine, void, undefined> {
    const query = { after, since, search, tail, follow: follow === true ? 'true' : undefined }
    const headers = { accept: 'text/event-stream' }
    yield* eventLines<ServiceLogLine>(
      await this.#http.open({ path: `${pathOf(name)}/logs`, query, headers, signal, answerMs: 0 }),
    )
  }

  async #contextOf(
    dir: string,
    { dockerfile, image, template }: DeployService,
    signal: AbortSignal | undefined,
  ): Promise<Pick<DeployService, 'context' | 'dockerfile'>> {
    const isDescribed = [dockerfile, image, template].some((one) => one !== undefined)
    const found = isDescribed ? undefined : await readContextFile(dir, 'Dockerfile')
    const { id } = await this.#templates.upload(await packContext(dir), { signal })
    return { context: id, ...(found !== undefined && { dockerfile: found }) }
  }

  /** False: the build has not begun. */
  async #showLog(
    template: string,
    { onLog, signal }: { onLog: ((line: string) => void) | undefined; signal: AbortSignal | undefined },
  ): Promise<boolean> {
    try {
      for await (const { text } of this.#templates.log(template, { signal })) onLog?.(text)
      return true
    } catch (error) {
      if (error instanceof DormouseError && error.code === 'template_not_found') return false
      throw error
    }
  }

  async #settled(
    name: string,
    version: number,
    { onLog, signal }: { onLog: ((line: string) => void) | undefined; signal: AbortSignal | undefined },
  ): Promise<Service> {
    let isLogShown = onLog === undefined
    for (;;) {
      const service = await this.get(name, { signal })
      const found = service.versions.find((other) => other.version === version)
      if (!isLogShown && found?.template !== undefined)
        isLogShown = await this.#showLog(found.template, { onLog, signal })
      if (found === undefined || found.state === 'failed')
        throw new DormouseError(
          'setup_failed',
          `Version ${version} of ${name} failed: ${found?.error ?? ''}`,
          {
            hint: `${stillServing(service)}Correct what the message says, and deploy again.`,
            details: { version },
          },
        )
      if (found.state === 'ready' && found.isCurrent) return service
      await sleep(POLL_MS, signal)
    }
  }
}

function stillServing({ version }: Service): string {
  return version === undefined ? '' : `Version ${version} keeps serving. `
}

function pathOf(name: string): string {
  return `/v1/services/${pathPart('name', name)}`
}
