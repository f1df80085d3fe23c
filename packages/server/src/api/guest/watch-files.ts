import type { FileChange } from '@dormouse/engine'
import type { Sandbox } from '../../sandbox/service.ts'

export interface WatchFiles {
  readonly path: string
  readonly recursive?: boolean
  readonly user?: string
}

/** Goes on in the next burrow. What happened between the two is unknown, so the caller is told to look again. */
export function watchFiles(
  sandbox: Sandbox,
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
