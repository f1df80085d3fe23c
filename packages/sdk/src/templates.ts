import { pathPart } from './check.ts'
import type {
  CreateTemplateBody,
  TemplateAnswer,
  TemplateMaterialsAnswer,
  TemplatePageAnswer,
} from './contract/index.ts'
import { DormouseError } from './error.ts'
import type { Http } from './http/http.ts'
import { Pages } from './http/pages.ts'
import type { CallOptions } from './options.ts'
import { sleep, withinTime } from './timing.ts'

export type Template = TemplateAnswer
export type CreateTemplate = CreateTemplateBody
/** All packages that a template was built from, with digests, and a digest of the list. */
export type TemplateMaterials = TemplateMaterialsAnswer

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

  /** Waits until it is ready. A failed build throws `setup_failed` with the end of its log in `details.logTail`. */
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
            hint: 'The end of its log is in `details.logTail`.',
            details: { logTail: template.logTail },
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
