import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { Limiter } from '@dormouse/async'
import { DormouseError } from '@dormouse/contracts'
import type { ImportImage } from '@dormouse/engine'
import type { LayerIndex } from './layer-index.ts'
import type { PulledImage } from './pull-image.ts'
import { unpackLayer } from './unpack-layer.ts'

/** One decompresses while the other writes. */
const UNPACK_AT_ONCE = 2

export interface PreparedLayer {
  readonly digest: string
  readonly diffId: string
  /** Unpacked in the work directory. Undefined when this host had the layer already. */
  readonly directory?: string
}

interface Unpacked {
  readonly directory: string
  readonly diffId: string
}

/** Unpacks the layers of one image into `work`. A layer can start while others are still being pulled. */
export class LayerUnpacker implements AsyncDisposable {
  readonly #index: LayerIndex
  readonly #work: string
  readonly #request: ImportImage
  readonly #stop = new AbortController()
  readonly #limiter = new Limiter({ concurrency: UNPACK_AT_ONCE })
  readonly #unpacking = new Map<string, Promise<Unpacked>>()

  constructor({ index, work, request }: { index: LayerIndex; work: string; request: ImportImage }) {
    this.#index = index
    this.#work = work
    this.#request = request
  }

  /** Pre: the archive is complete. A second call for the same layer shares the work of the first. */
  start(digest: string, archive: string): Promise<Unpacked> {
    const running = this.#unpacking.get(digest)
    if (running !== undefined) return running
    const unpacking = this.#limiter.run(() => this.#unpack(digest, archive))
    // `finish` reports it; until then a rejection is not unhandled.
    unpacking.catch(() => {})
    this.#unpacking.set(digest, unpacking)
    return unpacking
  }

  /** Unpacks what is left, and checks that every layer has the content that the configuration names. */
  async finish({ manifest, config, archive }: PulledImage): Promise<PreparedLayer[]> {
    const { onLine = () => {} } = this.#request
    let unpackedCount = 0
    const prepare = async ({ digest }: { digest: string }, at: number): Promise<PreparedLayer> => {
      const diffId = config.rootfs.diff_ids[at] ?? ''
      const known = (await this.#index.find(digest)) ?? (await this.#index.find(diffId))
      if (known?.diffId === diffId) return { digest, diffId }
      const unpacked = await this.start(digest, archive(digest))
      if (unpacked.diffId !== diffId) {
        // The next try pulls it again.
        await rm(archive(digest), { force: true })
        throw new DormouseError(
          'setup_failed',
          `Layer ${digest} of the image has other content than its digest says.`,
        )
      }
      unpackedCount += 1
      onLine(`Unpacked layer ${unpackedCount} of ${manifest.layers.length}`)
      return { digest, diffId, directory: unpacked.directory }
    }
    return Promise.all(manifest.layers.map(prepare))
  }

  /** Post: nothing is being unpacked any more. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort()
    await Promise.allSettled(this.#unpacking.values())
  }

  async #unpack(digest: string, archive: string): Promise<Unpacked> {
    const { maxBytes, maxFiles, signal } = this.#request
    const directory = join(this.#work, digest.replace(/^sha256:/, ''))
    const either = signal === undefined ? this.#stop.signal : AbortSignal.any([signal, this.#stop.signal])
    const diffId = await unpackLayer({ archive, into: directory, maxBytes, maxFiles, signal: either })
    return { directory, diffId }
  }
}
