import { invalidArgument } from '../check.ts'
import type { FileStatAnswer } from '../contract/index.ts'
import { DormouseError } from '../error.ts'
import { forEachConcurrently } from '../fan-out/for-each-concurrently.ts'
import { isTransient } from '../http/http.ts'
import type { CallOptions } from '../options.ts'
import { onAbort, withinTime } from '../timing.ts'
import type { Files } from './files.ts'

export interface DirectoryOptions extends CallOptions {
  /** A user of the sandbox. Default: its default user. */
  readonly user?: string | undefined
  /** Gets each path below the directory, such as `src/main.ts`. False leaves it out, with all that is below it. */
  readonly filter?: ((path: string) => boolean) | undefined
}

/** Files at once. */
const CONCURRENCY = 8

export function uploadDirectory(
  files: Files,
  local: string,
  remote: string,
  { user, filter = () => true, ...limits }: DirectoryOptions,
): Promise<void> {
  return withinTime(limits, async (outer) => {
    const { localFiles } = await import('#local-files')
    if (!(await localFiles.isDirectory(local)))
      throw invalidArgument('local', 'is not a directory', local, '`files.write` writes one file.')
    const tree = await localFiles.readTree(local, { filter })
    await each(tree.directories, outer, (below, signal) =>
      files.mkdir(joined(remote, below), { user, signal }),
    )
    await each(tree.files, outer, async (file, signal) => {
      const mode = `0${file.mode.toString(8).padStart(3, '0')}`
      const content = await localFiles.contentOf(file)
      await files.write(joined(remote, file.below), content, { mode, user, signal })
    })
  })
}

export function downloadDirectory(
  files: Files,
  remote: string,
  local: string,
  { user, filter = () => true, ...limits }: DirectoryOptions,
): Promise<void> {
  return withinTime(limits, async (outer) => {
    const { localFiles } = await import('#local-files')
    const found: { readonly below: string; readonly mode: number }[] = []
    const directories = ['']
    // Grows while it is read.
    for (const directory of directories) {
      const entries = await files.list(joined(remote, directory), { user, signal: outer })
      await localFiles.makeDirectory(local, directory)
      for (const entry of entries) {
        const name = localFiles.checkName(entry.name)
        const below = directory === '' ? name : `${directory}/${name}`
        if (!filter(below)) continue
        if (entry.type === 'directory') directories.push(below)
        const target =
          entry.type === 'symlink'
            ? await targetOf(files, joined(remote, below), { user, signal: outer })
            : entry
        if (target?.type === 'file') found.push({ below, mode: Number.parseInt(target.mode, 8) || 0 })
      }
    }
    await each(found, outer, async ({ below, mode }, signal) => {
      const content = files.stream(joined(remote, below), { user, signal })
      await localFiles.replaceFile(localFiles.pathOf(local, below), content, mode)
    })
  })
}

/** Undefined for a link that leads nowhere. */
async function targetOf(
  files: Files,
  path: string,
  options: { user: string | undefined; signal: AbortSignal | undefined },
): Promise<FileStatAnswer | undefined> {
  try {
    return await files.stat(path, options)
  } catch (error) {
    if (!(error instanceof DormouseError) || isTransient(error) || options.signal?.aborted) throw error
    return undefined
  }
}

/** Calls `work` for all items, a few at once. The first error stops the others, and is thrown. */
async function each<Item>(
  items: readonly Item[],
  outer: AbortSignal | undefined,
  work: (item: Item, signal: AbortSignal) => Promise<unknown>,
): Promise<void> {
  const stop = new AbortController()
  const stopListening = onAbort(outer, () => stop.abort(outer?.reason))
  let failure: { readonly error: unknown } | undefined
  await forEachConcurrently(items, CONCURRENCY, async (item) => {
    if (failure !== undefined) return
    try {
      await work(item, stop.signal)
    } catch (error) {
      failure ??= { error }
      stop.abort()
    }
  })
  stopListening()
  if (failure !== undefined) throw failure.error
}

function joined(directory: string, below: string): string {
  if (below === '') return directory
  return directory.endsWith('/') ? `${directory}${below}` : `${directory}/${below}`
}
