import type {
  CreateTemplateBody,
  TemplateAnswer,
  TemplateMaterialsAnswer,
  TemplatePageAnswer,
} from './contract/index.ts'
import { DormouseError } from './error.ts'
import type { Http } from './http/http.ts'
import { Pages } from './http/pages.ts'
import type { Abortable } from './options.ts'
import { sleep } from './timing.ts'

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
  create(template: CreateTemplate, { signal }: Abortable = {}): Promise<Template> {
    return this.#http.json({ method: 'POST', path: '/v1/templates', json: template, signal })
  }

  list({ signal }: Abortable = {}): Pages<Template> {
    return new Pages((query) => this.#http.json<TemplatePageAnswer>({ path: '/v1/templates', query, signal }))
  }

  get(name: string, { signal }: Abortable = {}): Promise<Template> {
    return this.#http.json({ path: pathOf(name), signal })
  }

  /** Throws `not_found` if they were not recorded. */
  materials(name: string, { signal }: Abortable = {}): Promise<TemplateMaterials> {
    return this.#http.json({ path: `${pathOf(name)}/materials`, signal })
  }

  /** Waits until it is ready. A failed build throws `setup_failed` with the end of its log in `details.logTail`. */
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
      await sleep(POLL_MS, signal)
    }
  }

  /** Refused while a sandbox needs it. Ends a build that runs. */
  delete(name: string, { signal }: Abortable = {}): Promise<void> {
    return this.#http.delete({ path: pathOf(name), signal })
  }
}

function pathOf(name: string): string {
  return `/v1/templates/${encodeURIComponent(name)}`
}
