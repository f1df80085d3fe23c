import { statfsSync } from 'node:fs'
import { freemem, totalmem } from 'node:os'
import { examineHost } from '@dormouse/engine-linux/setup'
import type { ServerInsight } from '../api/services.ts'
import type { LogLines } from '../log-lines.ts'
import { VERSION } from '../version.ts'

export interface ServerInsightOptions {
  readonly dataDir: string
  /** Holds templates and tools. */
  readonly templatesDir: string
  readonly lines: LogLines
}

/** How the server and its host are. */
export function serverInsight({ dataDir, templatesDir, lines }: ServerInsightOptions): ServerInsight {
  const startedAt = new Date().toISOString()
  return {
    report: async () => {
      const { canRunSandboxes, checks: found } = await examineHost(templatesDir)
      const checks = found.map((check) => withoutPaths(check, [dataDir, templatesDir]))
      const { bavail, bsize, blocks } = statfsSync(dataDir)
      return {
        ...{ version: VERSION, startedAt, canRunSandboxes, checks },
        disk: { freeBytes: bavail * bsize, totalBytes: blocks * bsize },
        memory: { freeBytes: freemem(), totalBytes: totalmem() },
      }
    },
    log: (options) => lines.read(options),
  }
}

/** Callers are told what is wrong, not where things are on the host. */
function withoutPaths<Check extends object>(check: Check, paths: readonly string[]): Check {
  const hide = (text: string) =>
    paths.reduce((shown, path) => shown.replaceAll(path, 'the data directory'), text)
  const entries = Object.entries(check).map(([name, value]) => [
    name,
    typeof value === 'string' ? hide(value) : value,
  ])
  return Object.fromEntries(entries) as Check
}
