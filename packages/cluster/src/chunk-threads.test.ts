import { expect, it } from 'vitest'
import { ChunkThreads } from './chunk-threads.ts'

it('fails what is under way, and what comes later, when it ends', async () => {
  const threads = new ChunkThreads(new Uint8Array(32))
  const named = threads.name(new Uint8Array(8 * 1024 ** 2))
  const refused = expect(named).rejects.toMatchObject({ code: 'cluster_unavailable' })
  await threads[Symbol.asyncDispose]()
  await refused
  await expect(threads.name(new Uint8Array(1))).rejects.toMatchObject({ code: 'cluster_unavailable' })
})
