import { openImage } from './build-context/open-image.ts'
import { packContext } from './build-context/pack-context.ts'
import { pathPart } from './check.ts'
import type {
  CreateTemplateBody,
  TemplateLogLineAnswer,
  TemplateMaterialsAnswer,
  TemplatePageAnswer,
  UploadAnswer,
} from './contract/index.ts'
import { DormouseError } from './error.ts'
import type { FileContent } from './files/files.ts'
import { contentBody } from './http/content.ts'
import { eventLines } from './http/event-lines.ts'
import type { Http } from './http/http.ts'
import { Pages } from './http/pages.ts'
import type { CallOptions } from './options.ts'
import type { Template, TemplateBuilder } from './template-builder.ts'
import { sleep, withinTime } from './timing.ts'

export type CreateTemplate = CreateTemplateBody
/** All packages that a template was built from, with digests, and a digest of the list. */
export type TemplateMaterials = TemplateMaterialsAnswer

export interface BuildOptions extends CallOptions {
  /** The directory that `copy` steps and `COPY` take files from. Its .dockerignore applies. Default: this one. */
  readonly context?: string
  /** Gets every line of the build's log. */
  readonly onLog?: (line: string) => void
}

export type TemplateLogLine = TemplateLogLineAnswer
export type Upload = UploadAnswer

const POLL_MS = 500

/** What sandboxes are made from. */
export class Templates {
  readonly #http: Http

  constructor(http: Http) {
    this.#http = http
  }

  /** Makes a template from a snapshot, or starts to build one: `wait` returns when it is ready. */
  create(template: CreateTemplate, { signal, timeoutMs }: CallOptions = {}): Promise<Template> {
    return this.#http.json({ method: 'POST', path: '/v1/templates', json: template, signal, timeoutMs })
  }

  /** Builds a template and waits until it is ready. Sends the image and the files of the context that it needs. */
  async build(name: string, builder: TemplateBuilder, options: BuildOptions = {}): Promise<Template> {
    const { context = '.', onLog, signal, timeoutMs } = options
    return withinTime({ signal, timeoutMs }, async (timed) => {
      const { archive } = builder
      const image =
        archive === undefined ? undefined : await this.upload(await openImage(archive), { signal: timed })
      const request = builder.request(name, image?.id)
      if (builder.needsContext)
        request.context = (await this.upload(await packContext(context), { signal: timed })).id
      await this.create(request, { signal: timed })
      if (onLog !== undefined) for await (const { text } of this.log(name, { signal: timed })) onLog(text)
      return this.#poll(name, undefined, timed)
    })
  }

  /** Sends a tar archive: the context of a build, or an image (`image: 'upload:ID'`). The server keeps it for a day. */
  upload(archive: FileContent, { signal, timeoutMs }: CallOptions = {}): Promise<Upload> {
    const { body, use } = contentBody('archive', archive)
    return use(() =>
      this.#http.json<Upload>({
        method: 'POST',
        path: '/v1/uploads',
        headers: { 'content-type': 'application/octet-stream' },
        body,
        // A big archive may take long.
        answerMs: 0,
        signal,
        timeoutMs,
      }),
    )
  }

  /** The lines of a build's log as they come. Ends with the build; later it has the end of the log. */
  async *log(name: string, { signal }: CallOptions = {}): AsyncGenerator<TemplateLogLine, void, undefined> {
    const headers = { accept: 'text/event-stream' }
    yield* eventLines<TemplateLogLine>(
      await this.#http.open({ path: `${pathOf(name)}/log`, headers, signal, answerMs: 0 }),
    )
  }

  /** Creates a sandbox in the state before the step of a build that failed. */
  debug(
    name: string,
    { name: sandboxName, signal, timeoutMs }: CallOptions & { name?: string } = {},
  ): Promise<{ readonly id: string }> {
    const json = sandboxName === undefined ? {} : { name: sandboxName }
    return this.#http.json({ method: 'POST', path: `${pathOf(name)}/debug`, json, signal, timeoutMs })
  }

  list({ signal, timeoutMs }: CallOptions = {}): Pages<Template> {
    return new Pages((query) =>
      this.#http.json<TemplatePageAnswer>({ path: '/v1/templates', query, signal, timeoutMs }),
    )
  }

  async get(name: string, { signal, timeoutMs }: CallOptions = {}): Promise<Template> {
    return this.#http.json({ path: pathOf(name), signal, timeoutMs })
  }

  /** Throws `not_found` if they were not recorded. */
  async materials(name: string, { signal, timeoutMs }: CallOptions = {}): Promise<TemplateMaterials> {
    return this.#http.json({ path: `${pathOf(name)}/materials`, signal, timeoutMs })
  }

  /** Waits until it is ready. A failed build throws `setup_failed`, with `logTail` and `failedStep` in its details. */
  async wait(
    name: string,
    { onLog, ...limits }: CallOptions & { onLog?: (logTail: string) => void } = {},
  ): Promise<Template> {
    return withinTime(limits, (signal) => this.#poll(name, onLog, signal))
  }

  async #poll(
    name: string,
    onLog: ((logTail: string) => void) | undefined,
    signal: AbortSignal | undefined,
  ): Promise<Template> {
    for (;;) {
      const template = await this.get(name, { signal })
      if (template.logTail !== undefined) onLog?.(template.logTail)
      if (template.state === 'ready') return template
      if (template.state === 'failed') {
        throw new DormouseError(
          'setup_failed',
          `The template ${name} could not be built: ${template.error ?? ''}`,
          {
            hint:
              template.failedStep === undefined
                ? 'The end of its log is in `details.logTail`.'
                : 'The end of its log is in `details.logTail`. `templates.debug` starts a sandbox before the step.',
            details: { logTail: template.logTail, failedStep: template.failedStep },
          },
        )
      }
      await sleep(POLL_MS, signal)
    }
  }

  /** Refused while a sandbox needs it. Ends a build that runs. */
  async delete(name: string, { signal, timeoutMs }: CallOptions = {}): Promise<void> {
    return this.#http.delete({ path: pathOf(name), signal, timeoutMs })
  }
}

function pathOf(name: string): string {
  return `/v1/templates/${pathPart('name', name)}`
}
