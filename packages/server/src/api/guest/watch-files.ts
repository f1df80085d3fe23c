import type { FileChange } from '@dormouse/engine'
import type { SandboxHandle } from '../../sandbox/sandbox-handle.ts'

export interface WatchFiles {
  readonly path: string
  readonly recursive?: boolean
  readonly user?: string
}

/** Continues in the next burrow. Changes in between are unknown, so it tells the caller to list the files again. */
export function watchFiles(
  sandbox: SandboxHandle,
  { path, ...options }: WatchFiles,
  signal: AbortSignal,
): AsyncIterable<FileChange> {
  let isAgain = false
  return sandbox.attach({ cause: 'file', what: `watching ${path}`, signal }, async function* (guest) {
    for await (const change of guest.files.watch(path, { ...options, signal })) {
      yield isAgain && change.type === 'ready' ? { type: 'overflow', path: change.path } : change
      isAgain = true
    }
  })
}
