import { reasonOf } from './build-outcome.ts'
import { BUILT_IN_OWNER } from './built-in-descriptions.ts'
import type { TemplateCatalog } from './template-catalog.ts'
import { NOTHING_YET } from './template-rows.ts'
import type { TemplateService } from './template-service.ts'
import type { TemplateDescription } from './templates.ts'

export interface BuiltInTemplatesOptions {
  readonly catalog: TemplateCatalog
  readonly service: Pick<TemplateService, 'get' | 'rebuild'>
  readonly now: () => number
}

/** The templates that every server builds for all keys. */
export class BuiltInTemplates {
  readonly #options: BuiltInTemplatesOptions

  constructor(options: BuiltInTemplatesOptions) {
    this.#options = options
  }

  /** Whether the template is ready, and was built from this description on the present build of its base. */
  async isCurrent({ name, description, from = '' }: TemplateDescription): Promise<boolean> {
    const { catalog, service } = this.#options
    const row = catalog.find(name, BUILT_IN_OWNER)
    if (row?.state !== 'ready' || row.description !== description) return false
    const base = await service.get(from, { keyId: BUILT_IN_OWNER, isAdmin: false })
    return Date.parse(base.createdAt) <= row.createdAt
  }

  /** Shows a template that waits for the builds of others. Only in memory: the next start decides again. */
  announce({ name, description, from }: TemplateDescription): void {
    const { catalog, now } = this.#options
    const owner = BUILT_IN_OWNER
    const state = catalog.find(name, owner)?.state
    if (state !== undefined && state !== 'failed') return
    const about = { ...NOTHING_YET, name, owner, description, base: from, createdAt: now() }
    catalog.putInMemory({ ...about, state: 'building', source: 'description' })
  }

  /** Throws when the build cannot begin. A build that fails records why. */
  build(description: TemplateDescription): Promise<void> {
    return this.#options.service.rebuild(description)
  }

  fail({ name, description, from }: TemplateDescription, error: unknown): void {
    const { catalog, now } = this.#options
    const owner = BUILT_IN_OWNER
    const about = { ...NOTHING_YET, name, owner, description, base: from, createdAt: now() }
    catalog.put({ ...about, state: 'failed', source: 'description', error: reasonOf(error) })
  }
}
