import { setTimeout as sleep } from 'node:timers/promises'
import { DormouseError, hasErrorCode } from '@dormouse/contracts'
import type { Log } from '../log.ts'
import {
  type Archive,
  type ArchiveName,
  BUILT_INS,
  type BuiltIn,
  type Library,
  type LibraryName,
} from './built-in-descriptions.ts'
import type { BuiltInTemplates } from './built-in-templates.ts'
import type { TemplateDescription } from './templates.ts'

export interface BuildBuiltIns {
  readonly templates: BuiltInTemplates
  readonly versionOf: (name: ArchiveName) => string
  /** Returns the file on the host. */
  readonly fetchArchive: (name: ArchiveName, signal: AbortSignal) => Promise<string>
  /** Undefined where no version of the library is known to fit the processor. */
  readonly libraryVersion: (name: LibraryName) => string | undefined
  readonly fetchLibrary: (name: LibraryName, signal: AbortSignal) => Promise<Library>
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
  for (const builtIn of BUILT_INS) options.templates.announce(describePlanned(builtIn, options))
  for (const builtIn of BUILT_INS) {
    if (options.signal.aborted) return
    await buildOne(builtIn, options)
  }
}

async function buildOne(builtIn: BuiltIn, options: BuildBuiltIns): Promise<void> {
  const { templates, log, signal } = options
  const planned = describePlanned(builtIn, options)
  if (await templates.isCurrent(planned)) return
  try {
    const libraries = await fetchLibraries(builtIn, options)
    // It was built without the libraries that are still missing.
    if (await templates.isCurrent(builtIn.describe({ archives: archivesOf(options, {}), libraries }))) return
    const files: Partial<Record<ArchiveName, string>> = {}
    for (const name of builtIn.archives) files[name] = await options.fetchArchive(name, signal)
    const description = builtIn.describe({ archives: archivesOf(options, files), libraries })
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

/** As it is when the host can fetch everything. */
function describePlanned(builtIn: BuiltIn, options: BuildBuiltIns): TemplateDescription {
  const libraries: Partial<Record<LibraryName, Library>> = {}
  for (const name of builtIn.libraries) {
    const version = options.libraryVersion(name)
    if (version !== undefined) libraries[name] = { version, files: [] }
  }
  return builtIn.describe({ archives: archivesOf(options, {}), libraries })
}

async function fetchLibraries(
  builtIn: BuiltIn,
  { libraryVersion, fetchLibrary, signal, log }: BuildBuiltIns,
): Promise<Partial<Record<LibraryName, Library>>> {
  const libraries: Partial<Record<LibraryName, Library>> = {}
  for (const name of builtIn.libraries) {
    if (libraryVersion(name) === undefined) continue
    try {
      libraries[name] = await fetchLibrary(name, signal)
    } catch (error) {
      signal.throwIfAborted()
      log.info({ library: name, err: error }, 'a built-in template is built without a library')
    }
  }
  return libraries
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
