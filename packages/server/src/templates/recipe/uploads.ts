import { createHash, randomBytes } from 'node:crypto'
import { createWriteStream } from 'node:fs'
import { mkdir, readdir, rename, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { DormouseError } from '@dormouse/contracts'
import type { UploadAnswer } from '@dormouse/contracts/http'
import type { Caller } from '../../access/caller.ts'

const KEPT_MS = 24 * 3_600_000
const ALPHABET = '23456789abcdefghijkmnpqrstuvwxyz'
/** Uploads of one key that are kept at the same time. */
const PER_KEY = 50

export interface UploadsOptions {
  readonly directory: string
  readonly maxBytes: number
  readonly now: () => number
}

/** Archives that clients sent for builds. Each belongs to the key that sent it, and is removed after a day. */
export class Uploads {
  readonly #options: UploadsOptions

  constructor(options: UploadsOptions) {
    this.#options = options
  }

  async put(pieces: AsyncIterable<Buffer>, caller: Caller): Promise<UploadAnswer> {
    const { maxBytes, now } = this.#options
    const directory = this.#directoryOf(caller)
    await mkdir(directory, { recursive: true, mode: 0o700 })
    await this.#tidy(directory)
    const id = `up-${[...randomBytes(16)].map((byte) => ALPHABET[byte & 31]).join('')}`
    const partial = join(directory, `.${id}`)
    const hash = createHash('sha256')
    let bytes = 0
    async function* counted() {
      for await (const piece of pieces) {
        bytes += piece.length
        if (bytes > maxBytes)
          throw new DormouseError('too_large', `An upload may have at most ${maxBytes} bytes.`)
        hash.update(piece)
        yield piece
      }
    }
    try {
      await pipeline(Readable.from(counted()), createWriteStream(partial, { mode: 0o600 }))
      await rename(partial, join(directory, id))
    } catch (error) {
      await rm(partial, { force: true })
      const { code } = error as NodeJS.ErrnoException
      if (code === 'ENOSPC' || code === 'EDQUOT')
        throw new DormouseError('no_space', 'The disk of the server is full.', { cause: error })
      throw error
    }
    return { id, bytes, sha256: hash.digest('hex'), expiresAt: new Date(now() + KEPT_MS).toISOString() }
  }

  /** The file of an upload. Throws `not_found`. */
  async find(id: string, caller: Caller): Promise<string> {
    const path = join(this.#directoryOf(caller), id)
    if (/^up-[2-9a-km-np-z]{16}$/.test(id) && (await stat(path).catch(() => undefined))) return path
    throw new DormouseError('not_found', `There is no upload ${id.slice(0, 40)}.`, {
      hint: 'Uploads are removed after a day. Send the files again.',
    })
  }

  #directoryOf({ keyId }: Caller): string {
    return join(this.#options.directory, createHash('sha256').update(keyId).digest('hex').slice(0, 32))
  }

  async #tidy(directory: string): Promise<void> {
    const found = await Promise.all(
      (await readdir(directory)).map(async (name) => {
        // Another request may remove it at the same time.
        const made = await stat(join(directory, name)).catch(() => undefined)
        return { path: join(directory, name), at: made?.mtimeMs ?? 0 }
      }),
    )
    const newestFirst = found.sort((a, b) => b.at - a.at)
    for (const [index, { path, at }] of newestFirst.entries())
      if (index >= PER_KEY || this.#options.now() - at > KEPT_MS) await rm(path, { force: true })
  }
}
