import { setTimeout as sleep } from 'node:timers/promises'
import { DormouseError, hasErrorCode } from '@dormouse/contracts'
import type { Log } from '../log.ts'
import { type Archive, type ArchiveName, BUILT_INS, type BuiltIn } from './built-in-descriptions.ts'
import type { BuiltInTemplates } from './built-in-templates.ts'

export interface BuildBuiltIns {
  readonly templates: BuiltInTemplates
  readonly versionOf: (name: ArchiveName) => string
  /** Returns the file on the host. */
  readonly fetchArchive: (name: ArchiveName, signal: AbortSignal) => Promise<string>
  readonly signal: AbortSignal
  readonly log: Log
}

const ALL: readonly ArchiveName[] = ['node', 'npm', 'typescript']
/** Builds of keys come first. */
const TRY_AGAIN_MS = 30_000

/**
 * Builds the templates that every key may use, one after the other, unless they are ready. A template that fails says
 * why, and the next start of the server tries again. So does a build that the end of the server interrupted.
 */
export async function buildBuiltIns(options: BuildBuiltIns): Promise<void> {
  if (options.signal.aborted) return
  for (const builtIn of BUILT_INS) options.templates.announce(builtIn.describe(archivesOf(options, {})))
  for (const builtIn of BUILT_INS) {
    if (options.signal.aborted) return
    await buildOne(builtIn, options)
  }
}

async function buildOne(builtIn: BuiltIn, options: BuildBuiltIns): Promise<void> {
  const { templates, log, signal } = options
  const planned = builtIn.describe(archivesOf(options, {}))
  if (await templates.isCurrent(planned)) return
  try {
    const files: Partial<Record<ArchiveName, string>> = {}
    for (const name of builtIn.archives) files[name] = await options.fetchArchive(name, signal)
    const description = builtIn.describe(archivesOf(options, files))
    while (!signal.aborted) {
      try {
        return await templates.build(description)
      } catch (error) {
        if (!hasErrorCode(error, 'overloaded')) throw error
        await sleep(TRY_AGAIN_MS, undefined, { signal })
      }
    }
  } catch (error) {
    if (signal.aborted) return
    log.warn({ template: planned.name, err: error }, 'a built-in template could not be built')
    if (error instanceof DormouseError) templates.fail(planned, error)
  }
}

function archivesOf(
  { versionOf }: BuildBuiltIns,
  files: Partial<Record<ArchiveName, string>>,
): Record<ArchiveName, Archive> {
  const entries = ALL.map((name): [ArchiveName, Archive] => [
    name,
    { version: versionOf(name), file: files[name] ?? '' },
  ])
  return Object.fromEntries(entries) as Record<ArchiveName, Archive>
}
