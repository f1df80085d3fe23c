import type { ByteSource, FileChange, FileStat, FileUser, GuestFiles, OpenFile } from '@dormouse/engine'
import type { AgentClient } from './agent-client.ts'
import { malformed } from './agent-value.ts'
import { requireByteSource } from './channel.ts'
import { checkFileChange, checkFileStat } from './check-files.ts'
import { dependsOnHome, refuseSystemPath } from './system-paths.ts'

export class AgentFiles implements GuestFiles {
  readonly #client: AgentClient

  constructor(client: AgentClient) {
    this.#client = client
  }

  async open(
    path: string,
    { signal, ...options }: FileUser & { offset?: number; length?: number } = {},
  ): Promise<OpenFile> {
    const check = (value: unknown) => (value instanceof Uint8Array ? value : checkFileStat(value))
    const pieces = this.#client.stream('file.read', { path, ...options }, { check, signal })
    const first = await pieces.next()
    if (first.done === true || first.value instanceof Uint8Array) {
      await pieces.return(undefined)
      throw malformed('answer to file.read')
    }
    return { stat: first.value, data: onlyBytes(pieces) }
  }

  async *read(
    path: string,
    options: FileUser & { offset?: number; length?: number } = {},
  ): AsyncGenerator<Uint8Array> {
    yield* (await this.open(path, options)).data
  }

  async write(
    path: string,
    data: ByteSource,
    { signal, ...options }: FileUser & { mode?: number; append?: boolean; parents?: boolean } = {},
  ): Promise<FileStat> {
    requireByteSource(data)
    const channel = await this.#client.open('file.write', { path, ...options }, { signal })
    await channel.send(data)
    return checkFileStat(await this.#client.answer(channel, channel.result))
  }

  async stat(path: string, { signal, ...options }: FileUser & { follow?: boolean } = {}): Promise<FileStat> {
    return checkFileStat(await this.#client.call('file.stat', { path, ...options }, { signal }))
  }

  list(path: string, { signal, ...options }: FileUser & { depth?: number } = {}): AsyncIterable<FileStat> {
    return this.#client.stream('file.list', { path, ...options }, { check: checkFileStat, signal })
  }

  async mkdir(
    path: string,
    { signal, ...options }: FileUser & { parents?: boolean; mode?: number } = {},
  ): Promise<FileStat> {
    return checkFileStat(await this.#client.call('file.mkdir', { path, ...options }, { signal }))
  }

  async move(
    paths: { from: string; to: string },
    as: FileUser & { overwrite?: boolean } = {},
  ): Promise<FileStat> {
    const { signal, ...options } = as
    await this.#requireRemovable('from', paths.from, as)
    return checkFileStat(await this.#client.call('file.move', { ...paths, ...options }, { signal }))
  }

  async remove(path: string, as: FileUser & { recursive?: boolean } = {}): Promise<void> {
    const { signal, ...options } = as
    await this.#requireRemovable('path', path, as)
    await this.#client.call('file.remove', { path, ...options }, { signal })
  }

  watch(
    path: string,
    { signal, ...options }: FileUser & { recursive?: boolean } = {},
  ): AsyncIterable<FileChange> {
    return this.#client.stream('file.watch', { path, ...options }, { check: checkFileChange, signal })
  }

  async #requireRemovable(field: string, path: unknown, as: FileUser): Promise<void> {
    // The agent refuses anything else.
    if (typeof path !== 'string') return
    const { user, signal } = as
    const who = { ...(user !== undefined && { user }), ...(signal !== undefined && { signal }) }
    const absolute = dependsOnHome(path) ? (await this.stat(path, { follow: false, ...who })).path : path
    refuseSystemPath(field, absolute)
  }
}

async function* onlyBytes(pieces: AsyncIterable<Uint8Array | FileStat>): AsyncGenerator<Uint8Array> {
  for await (const piece of pieces) {
    if (!(piece instanceof Uint8Array)) throw malformed('answer to file.read')
    yield piece
  }
}
