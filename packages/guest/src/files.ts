import type { ByteSource, FileStat, FileUser, GuestFiles } from '@dormouse/engine'
import type { AgentClient } from './agent-client.ts'
import { requireByteSource } from './channel.ts'

export class AgentFiles implements GuestFiles {
  readonly #client: AgentClient

  constructor(client: AgentClient) {
    this.#client = client
  }

  async *read(
    path: string,
    { signal, ...options }: FileUser & { offset?: number; length?: number } = {},
  ): AsyncGenerator<Uint8Array> {
    // The first element is the file's stat; it matters only to callers that need the size ahead.
    const check = (value: unknown) => (value instanceof Uint8Array ? value : undefined)
    for await (const piece of this.#client.stream('file.read', { path, ...options }, { check, signal })) {
      if (piece !== undefined) yield piece
    }
  }

  async write(
    path: string,
    data: ByteSource,
    { signal, ...options }: FileUser & { mode?: number; append?: boolean; parents?: boolean } = {},
  ): Promise<FileStat> {
    requireByteSource(data)
    const channel = await this.#client.open('file.write', { path, ...options }, { signal })
    await channel.send(data)
    return (await this.#client.explain(channel.result)) as FileStat
  }

  async stat(path: string, { signal, ...options }: FileUser & { follow?: boolean } = {}): Promise<FileStat> {
    return (await this.#client.call('file.stat', { path, ...options }, { signal })) as FileStat
  }

  list(path: string, { signal, ...options }: FileUser & { depth?: number } = {}): AsyncIterable<FileStat> {
    const check = (value: unknown) => value as FileStat
    return this.#client.stream('file.list', { path, ...options }, { check, signal })
  }

  async mkdir(
    path: string,
    { signal, ...options }: FileUser & { parents?: boolean; mode?: number } = {},
  ): Promise<FileStat> {
    return (await this.#client.call('file.mkdir', { path, ...options }, { signal })) as FileStat
  }

  async move(
    paths: { from: string; to: string },
    { signal, ...options }: FileUser & { overwrite?: boolean } = {},
  ): Promise<FileStat> {
    return (await this.#client.call('file.move', { ...paths, ...options }, { signal })) as FileStat
  }

  async remove(path: string, { signal, ...options }: FileUser & { recursive?: boolean } = {}): Promise<void> {
    await this.#client.call('file.remove', { path, ...options }, { signal })
  }
}
