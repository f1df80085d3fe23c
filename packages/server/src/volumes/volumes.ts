import type { VolumeAnswer } from '@dormouse/contracts/http'
import type { Caller } from '../access/caller.ts'
import type { Page } from '../store/page.ts'

export interface Volumes {
  /** Throws `name_taken`. */
  create(request: { name: string; sizeBytes?: number }, caller: Caller): Promise<VolumeAnswer>
  list(query: { limit: number; cursor?: string }, caller: Caller): Page<VolumeAnswer>
  get(name: string, caller: Caller): Promise<VolumeAnswer>
  update(name: string, change: { sizeBytes: number }, caller: Caller): VolumeAnswer
  /** Throws `in_use` while a sandbox mounts it. */
  delete(name: string, caller: Caller): Promise<void>
}
