import type { TemplateAnswer } from '@dormouse/contracts/http'
import { DEFAULT_TEMPLATE } from '@dormouse/contracts/http'
import type { BuildLog } from './build-log.ts'
import { BUILT_IN_OWNER } from './built-in-descriptions.ts'
import type { HostTemplate } from './host-templates.ts'
import type { TemplateRow } from './template-rows.ts'

/** A template of a key, or a built-in one, as callers see it. `log` is that of a build that runs. */
export function describeRow(row: TemplateRow, log?: Pick<BuildLog, 'step' | 'tail'>): TemplateAnswer {
  return {
    name: row.name,
    description: row.description,
    state: row.state,
    source: row.owner === BUILT_IN_OWNER ? 'built_in' : row.source,
    from: row.base,
    image: row.image?.name,
    isolation: row.isolation,
    failedStep: row.debug?.shown,
    progress: row.state === 'building' ? (log?.step ?? 'waiting for other builds') : undefined,
    snapshotId: row.snapshotId,
    createdAt: new Date(row.createdAt).toISOString(),
    bytes: undefined,
    materials: row.materials,
    logTail: log === undefined ? row.logTail : log.tail,
    error: row.error,
  }
}

/** A template of the host. `row` is there if a key built it through the API. */
export function describeHostTemplate(
  { name, description, createdAt, bytes, materials }: HostTemplate,
  row: TemplateRow | undefined,
): TemplateAnswer {
  return {
    ...{ name, description, state: 'ready', createdAt, bytes, materials },
    source: row !== undefined ? 'description' : name === DEFAULT_TEMPLATE ? 'built_in' : 'host',
    from: undefined,
    image: undefined,
    isolation: undefined,
    failedStep: undefined,
    progress: undefined,
    snapshotId: undefined,
    logTail: row?.logTail,
    error: undefined,
  }
}
