import type {
  CreateTemplateBody,
  TemplateAnswer,
  TemplateMaterialsAnswer,
  TemplatePageAnswer,
} from './contract/index.ts'
import { DormouseError } from './error.ts'
import type { Http } from './http/http.ts'
import { Pages } from './http/pages.ts'
import { sleep } from './http/patience.ts'
import type { Abortable } from './options.ts'

export type Template = TemplateAnswer
export type CreateTemplate = CreateTemplateBody
/** What a template was built from: every package with its digest, and a digest of the list. */
export type TemplateMaterials = TemplateMaterialsAnswer

const LOOK_EVERY_MS = 500

/** What sandboxes are made from. */
export class Templates {
  readonly #http: Http

  constructor(http: Http) {
    this.#http = http
  }

  /** From a snapshot at once; from a description it is `building` first: see `wait`. */
  create(template: CreateTemplate, { signal }: Abortable = {}): Promise<Template> {
    return this.#http.json({ method: 'POST', path: '/v1/templates', json: template, signal })
  }

  list({ signal }: Abortable = {}): Pages<Template> {
    return new Pages((query) => this.#http.json<TemplatePageAnswer>({ path: '/v1/templates', query, signal }))
  }

  get(name: string, { signal }: Abortable = {}): Promise<Template> {
    return this.#http.json({ path: pathOf(name), signal })
  }

  /** Throws `not_found` when it was not recorded. */
  materials(name: string, { signal }: Abortable = {}): Promise<TemplateMaterials> {
    return this.#http.json({ path: `${pathOf(name)}/materials`, signal })
  }

  /** Until it is `ready`. A build that failed throws `setup_failed` with the end of its log in `details.logTail`. */
  async wait(
    name: string,
    { signal, onLog }: Abortable & { onLog?: (logTail: string) => void } = {},
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
      await sleep(LOOK_EVERY_MS, signal)
    }
  }

  /** Refused while a sandbox needs it. A build under way is ended. */
  delete(name: string, { signal }: Abortable = {}): Promise<void> {
    return this.#http.delete({ path: pathOf(name), signal })
  }
}

function pathOf(name: string): string {
  return `/v1/templates/${encodeURIComponent(name)}`
}
