import type { CreateVolumeBody, UpdateVolumeBody, VolumeAnswer, VolumePageAnswer } from './contract/index.ts'
import type { Http } from './http/http.ts'
import { Pages } from './http/pages.ts'
import type { Abortable } from './options.ts'

export type Volume = VolumeAnswer
export type CreateVolume = CreateVolumeBody
export type UpdateVolume = UpdateVolumeBody

/** Directories that outlive sandboxes. Mount them with `volumes` of `Sandbox.create`. */
export class Volumes {
  readonly #http: Http

  constructor(http: Http) {
    this.#http = http
  }

  create(volume: CreateVolume, { signal }: Abortable = {}): Promise<Volume> {
    return this.#http.json({ method: 'POST', path: '/v1/volumes', json: volume, signal })
  }

  list({ signal }: Abortable = {}): Pages<Volume> {
    return new Pages((query) => this.#http.json<VolumePageAnswer>({ path: '/v1/volumes', query, signal }))
  }

  get(name: string, { signal }: Abortable = {}): Promise<Volume> {
    return this.#http.json({ path: pathOf(name), signal })
  }

  /** Changes how much it may hold. */
  update(name: string, change: UpdateVolume, { signal }: Abortable = {}): Promise<Volume> {
    return this.#http.json({ method: 'PATCH', path: pathOf(name), json: change, signal })
  }

  /** Deletes it with its files. Refused while a sandbox mounts it. */
  delete(name: string, { signal }: Abortable = {}): Promise<void> {
    return this.#http.delete({ path: pathOf(name), signal })
  }
}

function pathOf(name: string): string {
  return `/v1/volumes/${encodeURIComponent(name)}`
}
