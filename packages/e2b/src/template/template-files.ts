import { randomBytes } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { hasErrorCode } from '@dormouse/contracts'
import type { BackendUploads, Caller } from '../backend.ts'
import { ApiError } from '../http/api-error.ts'
import { sendError, sendNothing } from '../http/respond.ts'
import type { ItemStore } from '../items.ts'

const KIND = 'template-file'
const PATH = /^\/template-files\/(?<token>[0-9a-f]{64})$/
const LINKS_MAX = 1000
const LINK_LIFE_MS = 3_600_000

interface Link {
  readonly caller: Caller
  readonly hash: string
  readonly endsAtMs: number
}

/** Files for builds, by the hash that clients compute. They are sent to a link that needs no key. */
export class TemplateFiles {
  readonly #uploads: BackendUploads
  readonly #items: ItemStore
  readonly #links = new Map<string, Link>()

  constructor({ uploads, items }: { uploads: BackendUploads; items: ItemStore }) {
    this.#uploads = uploads
    this.#items = items
  }

  /** Whether the files are here. */
  async has(hash: string, caller: Caller): Promise<boolean> {
    const id = this.#idOf(hash, caller)
    return id !== undefined && (await this.#exists(id, caller))
  }

  /** The path to send files to. */
  newLink(hash: string, { keyId, isAdmin }: Caller): string {
    const token = randomBytes(32).toString('hex')
    this.#links.set(token, { caller: { keyId, isAdmin }, hash, endsAtMs: Date.now() + LINK_LIFE_MS })
    for (const old of [...this.#links.keys()].slice(0, -LINKS_MAX)) this.#links.delete(old)
    return `/template-files/${token}`
  }

  /** Throws `ApiError` 400. */
  uploadOf(hash: string, caller: Caller): string {
    const id = this.#idOf(hash, caller)
    if (id === undefined) throw new ApiError(400, `There are no files with the hash ${hash.slice(0, 80)}`)
    return id
  }

  isLink(path: string): boolean {
    return PATH.test(path)
  }

  async serve(request: IncomingMessage, response: ServerResponse, { path }: { path: string }): Promise<void> {
    try {
      const link = this.#links.get(PATH.exec(path)?.groups?.['token'] ?? '')
      if (link === undefined || link.endsAtMs < Date.now())
        throw new ApiError(403, 'The link is not valid any more')
      if (request.method !== 'PUT') throw new ApiError(405, 'method not allowed')
      const { caller, hash } = link
      const { id } = await this.#uploads.put(request as AsyncIterable<Buffer>, caller)
      this.#items.put({ kind: KIND, owner: caller.keyId, name: hash }, { id })
      await this.#tidy(caller)
      sendNothing(response, 200)
    } catch (error) {
      request.resume()
      sendError(response, error)
    }
  }

  #idOf(hash: string, { keyId }: Caller): string | undefined {
    return (this.#items.find({ kind: KIND, owner: keyId, name: hash }) as { id: string } | undefined)?.id
  }

  /** Uploads are removed after a day, and then their hashes are forgotten. */
  async #tidy(caller: Caller): Promise<void> {
    for (const { name, value } of this.#items.list(KIND, caller.keyId))
      if (!(await this.#exists((value as { id: string }).id, caller)))
        this.#items.delete({ kind: KIND, owner: caller.keyId, name })
  }

  async #exists(id: string, caller: Caller): Promise<boolean> {
    try {
      await this.#uploads.find(id, caller)
      return true
    } catch (error) {
      if (hasErrorCode(error, 'not_found')) return false
      throw error
    }
  }
}
