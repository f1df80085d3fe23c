import { type FSWatcher, watch } from 'node:fs'

const NAME = /^[0-9a-f]{64}$/

/**
 * Calls `onBlob` with the digest of every blob that appears. skopeo names a blob once it is complete and has its digest.
 * A blob can be missed: the caller looks again when skopeo has ended.
 */
export function watchBlobs(directory: string, onBlob: (digest: string) => void): Disposable {
  let watcher: FSWatcher | undefined
  try {
    watcher = watch(directory, (_event, name) => {
      if (name !== null && NAME.test(name)) onBlob(`sha256:${name}`)
    })
    watcher.on('error', () => watcher?.close())
  } catch {
    // The host may have no watches left; then layers are unpacked after the pull.
  }
  return { [Symbol.dispose]: () => watcher?.close() }
}
