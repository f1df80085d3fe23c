import { pathPart } from './check.ts'
import type {
  CloneVolumeBody,
  CreateVolumeBody,
  UpdateVolumeBody,
  VolumeAnswer,
  VolumePageAnswer,
} from './contract/index.ts'
import { Files } from './files/files.ts'
import type { Http } from './http/http.ts'
import { Pages } from './http/pages.ts'
import type { CallOptions } from './options.ts'

export type Volume = VolumeAnswer
export type CreateVolume = CreateVolumeBody
export type UpdateVolume = UpdateVolumeBody
export type CloneVolume = CloneVolumeBody
/** Files of a volume. Paths start at its root; it has no users, and nothing wakes. */
export type VolumeFiles = Omit<Files, 'watch'>

/** Directories that outlive sandboxes. Mount them with `volumes` of `Sandbox.create` or `sandbox.update`. */
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

  /**
   * Makes a volume with the same content. With `readOnly` it is a snapshot, to which nothing can write. Blocks are shared
   * where the file system can. An abort leaves no new volume.
   */
  async clone(name: string, clone: CloneVolume, { signal, timeoutMs }: CallOptions = {}): Promise<Volume> {
    const path = `${pathOf(name)}/clone`
    // Gigabytes may take long.
    return this.#http.json({ method: 'POST', path, json: clone, answerMs: 0, signal, timeoutMs })
  }

  /** Lets sandboxes of another key mount it. `key`: its id, or its name. */
  async share(
    name: string,
    key: string,
    access: 'read' | 'write',
    { signal, timeoutMs }: CallOptions = {},
  ): Promise<Volume> {
    const path = `${pathOf(name)}/shares/${pathPart('key', key)}`
    return this.#http.json({ method: 'PUT', path, json: { access }, signal, timeoutMs })
  }

  /** Sandboxes of that key that mount it are put to standby, and do not wake before they detach it. */
  async unshare(name: string, key: string, { signal, timeoutMs }: CallOptions = {}): Promise<void> {
    const path = `${pathOf(name)}/shares/${pathPart('key', key)}`
    return this.#http.delete({ path, signal, timeoutMs })
  }

  /** Its files, without a sandbox. Sandboxes may change them at the same time. */
  files(name: string): VolumeFiles {
    return new Files(this.#http, pathOf(name))
  }

  /** Deletes it with its files. Refused while a sandbox mounts it. */
  async delete(name: string, { signal, timeoutMs }: CallOptions = {}): Promise<void> {
    return this.#http.delete({ path: pathOf(name), signal, timeoutMs })
  }
}

function pathOf(name: string): string {
  return `/v1/volumes/${pathPart('name', name)}`
}
