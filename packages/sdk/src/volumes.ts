import { pathPart } from './check.ts'
import type { CreateVolumeBody, UpdateVolumeBody, VolumeAnswer, VolumePageAnswer } from './contract/index.ts'
import type { Http } from './http/http.ts'
import { Pages } from './http/pages.ts'
import type { CallOptions } from './options.ts'

export type Volume = VolumeAnswer
export type CreateVolume = CreateVolumeBody
export type UpdateVolume = UpdateVolumeBody

/** Directories that outlive sandboxes. Mount them with `volumes` of `Sandbox.create`. */
export class Volumes {
  readonly #http: Http

  constructor(http: Http) {
    this.#http = http
  }

  create(volume: CreateVolume, { signal, timeoutMs }: CallOptions = {}): Promise<Volume> {
    return this.#http.json({ method: 'POST', path: '/v1/volumes', json: volume, signal, timeoutMs })
  }

  list({ signal, timeoutMs }: CallOptions = {}): Pages<Volume> {
    return new Pages((query) =>
      this.#http.json<VolumePageAnswer>({ path: '/v1/volumes', query, signal, timeoutMs }),
    )
  }

  async get(name: string, { signal, timeoutMs }: CallOptions = {}): Promise<Volume> {
    return this.#http.json({ path: pathOf(name), signal, timeoutMs })
  }

  /** Changes how much it may hold. */
  async update(name: string, change: UpdateVolume, { signal, timeoutMs }: CallOptions = {}): Promise<Volume> {
    return this.#http.json({ method: 'PATCH', path: pathOf(name), json: change, signal, timeoutMs })
  }

  /** Deletes it with its files. Refused while a sandbox mounts it. */
  async delete(name: string, { signal, timeoutMs }: CallOptions = {}): Promise<void> {
    return this.#http.delete({ path: pathOf(name), signal, timeoutMs })
  }
}

function pathOf(name: string): string {
  return `/v1/volumes/${pathPart('name', name)}`
}
