import type { TemplateAnswer } from '@dormouse/contracts/http'
import type { Caller } from '../backend.ts'
import { ENVD_VERSION } from '../envd/envd.ts'
import type { TemplateBuilds } from '../template/template-builds.ts'
import type { TemplateRecord } from '../template/template-records.ts'

const STATUS = { building: 'building', ready: 'ready', failed: 'error' } as const
const NOT_COUNTED = { createdBy: null, lastSpawnedAt: null, spawnCount: 0, envdVersion: ENVD_VERSION }
const DEFAULT_SIZE = { cpuCount: 1, memoryMB: 1024 }

const timeOf = (atMs: number) => new Date(atMs).toISOString()

/** A template of Dormouse, which has one build: its own. */
export function hostTemplateView({
  name,
  createdAt,
  bytes,
  source,
  state,
}: TemplateAnswer): Record<string, unknown> {
  return {
    ...{ templateID: name, buildID: name, aliases: [name], names: [name] },
    ...DEFAULT_SIZE,
    ...NOT_COUNTED,
    ...{
      diskSizeMB: Math.ceil((bytes ?? 0) / 1024 ** 2),
      public: source === 'built_in' || source === 'host',
    },
    ...{ createdAt, updatedAt: createdAt, buildCount: 1, buildStatus: STATUS[state] },
  }
}

/** A template that a client of E2B built, with its newest build. */
export async function templateView(
  builds: TemplateBuilds,
  template: TemplateRecord,
  caller: Caller,
): Promise<object> {
  const { templateId, name, builds: all, isPublic, createdAtMs } = template
  const [build] = all
  const status = build && (await builds.statusOf({ template, build }, caller)).status
  return {
    ...{ templateID: templateId, buildID: build?.buildId ?? '', aliases: [name], names: [name] },
    ...{ cpuCount: build?.cpuCount ?? 1, memoryMB: build?.memoryMB ?? 1024, diskSizeMB: 0 },
    ...NOT_COUNTED,
    ...{
      public: isPublic,
      createdAt: timeOf(createdAtMs),
      updatedAt: timeOf(build?.createdAtMs ?? createdAtMs),
    },
    ...{ buildCount: all.length, buildStatus: status ?? 'waiting' },
  }
}

export async function buildsView(
  builds: TemplateBuilds,
  template: TemplateRecord,
  caller: Caller,
): Promise<object> {
  const all = template.builds.map(async (build) => {
    const { buildId, createdAtMs, cpuCount, memoryMB } = build
    const { status } = await builds.statusOf({ template, build }, caller)
    const at = timeOf(createdAtMs)
    return { ...{ buildID: buildId, status, createdAt: at, updatedAt: at }, ...{ cpuCount, memoryMB } }
  })
  return { ...(await templateView(builds, template, caller)), builds: await Promise.all(all) }
}
