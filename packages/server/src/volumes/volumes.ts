import type { VolumeAnswer } from '@dormouse/contracts/http'
import type { VolumeFiles } from '@dormouse/engine'
import type { Caller } from '../access/caller.ts'
import type { Page } from '../store/page.ts'

export interface Volumes {
  /** Throws `name_taken`. */
  create(request: { name: string; sizeBytes?: number }, caller: Caller): Promise<VolumeAnswer>
  list(query: { limit: number; cursor?: string }, caller: Caller): Page<VolumeAnswer>
  get(name: string, caller: Caller): Promise<VolumeAnswer>
  update(name: string, change: { sizeBytes: number }, caller: Caller): Promise<VolumeAnswer>
  /** A new volume with the same content. Throws `name_taken`. */
  clone(
    name: string,
    clone: { name: string; readOnly: boolean; sizeBytes?: number },
    caller: Caller,
    signal: AbortSignal,
  ): Promise<VolumeAnswer>
  /** `key`: the id or the name of a key. */
  share(name: string, share: { key: string; access: 'read' | 'write' }, caller: Caller): VolumeAnswer
  unshare(name: string, key: string, caller: Caller): void
  /** Its files, without a sandbox. */
  files(name: string, caller: Caller): VolumeFiles
  /** Throws `in_use` while a sandbox mounts it. */
  delete(name: string, caller: Caller): Promise<void>
}
