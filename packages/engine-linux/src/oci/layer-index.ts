import { existsSync } from 'node:fs'
import { mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { isLayerId, type LayerId } from '@dormouse/contracts'
import { z } from 'zod'
import type { Layout } from '../host/layout.ts'

const entrySchema = z.strictObject({
  layer: z.custom<LayerId>((value) => typeof value === 'string' && isLayerId(value)),
  diffId: z.string(),
})

export type KnownLayer = z.output<typeof entrySchema>

/**
 * Which file layer has the content of which image layer: by the digest of the archive as it was sent, and by that of the
 * unpacked archive. An entry counts only while its layer exists: layers that nothing refers to are collected.
 */
export class LayerIndex {
  readonly #layout: Layout

  constructor(layout: Layout) {
    this.#layout = layout
  }

  async find(digest: string): Promise<KnownLayer | undefined> {
    try {
      const entry = entrySchema.parse(JSON.parse(await readFile(this.#path(digest), 'utf8')))
      return existsSync(this.#layout.layer(entry.layer)) ? entry : undefined
    } catch {
      // Not known, or cut off by a power failure: the layer is pulled again.
      return undefined
    }
  }

  /** Pre: the layer is complete and on disk. */
  async add(digest: string, known: KnownLayer): Promise<void> {
    await mkdir(this.#layout.imageLayersDir, { recursive: true, mode: 0o700 })
    const path = this.#path(digest)
    await writeFile(`${path}.new`, JSON.stringify(known), { mode: 0o600 })
    await rename(`${path}.new`, path)
  }

  /** Removes entries whose layers were collected. */
  async tidy(): Promise<void> {
    // Missing until the first image is pulled.
    for (const name of await readdir(this.#layout.imageLayersDir).catch(() => [])) {
      const digest = `sha256:${name}`
      if ((await this.find(digest)) === undefined) await rm(this.#path(digest), { force: true })
    }
  }

  #path(digest: string): string {
    return join(this.#layout.imageLayersDir, digest.replace(/^sha256:/, ''))
  }
}
