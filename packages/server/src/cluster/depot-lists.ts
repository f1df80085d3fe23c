import { CHUNK_BYTES, type Depot } from '@dormouse/cluster'
import type { ArrivingPart, PortablePart } from '@dormouse/engine'
import { z } from 'zod'

/** Files are fetched in pieces of this size while a sandbox waits for some of them. */
const PIECE_BYTES = 128 * 1024

/** The list of a snapshot: its parts, each with the name of its own list, which names chunks. */
export const snapshotListSchema = z.strictObject({
  parts: z.array(z.strictObject({ key: z.string(), list: z.string() })),
})
const partListSchema = z.strictObject({
  chunks: z.array(z.string()),
  /** Of a sparse file: the bytes of its extents, one after the other, are in the chunks. */
  memory: z
    .strictObject({
      sizeBytes: z.int().nonnegative(),
      chunkBytes: z.int().positive(),
      extents: z.array(z.tuple([z.int().nonnegative(), z.int().positive()])),
    })
    .optional(),
})

export type SnapshotList = z.output<typeof snapshotListSchema>
export type PartList = z.output<typeof partListSchema>

/** Stores the content of a part. */
export async function storePart(
  depot: Depot,
  part: PortablePart,
): Promise<{ list: PartList; sentBytes: number }> {
  if (part.kind === 'archive') {
    const { chunks, sentBytes } = await depot.storeStream(part.read())
    return { list: { chunks: [...chunks] }, sentBytes }
  }
  const { extents, content } = await part.read()
  const chunkBytes = part.isReadWhole ? CHUNK_BYTES : PIECE_BYTES
  const { chunks, sentBytes } = await depot.storeStream(content, { chunkBytes })
  const memory = {
    sizeBytes: part.sizeBytes,
    chunkBytes,
    extents: extents.map(([offset, lengthBytes]): [number, number] => [offset, lengthBytes]),
  }
  return { list: { chunks: [...chunks], memory }, sentBytes }
}

/** What a part takes on the disk of a host that has fetched it; an archive takes up to a chunk less. */
export function bytesOfPart(list: unknown): number {
  const { chunks, memory } = partListSchema.parse(list)
  if (memory === undefined) return chunks.length * CHUNK_BYTES
  return memory.extents.reduce((sum, [, lengthBytes]) => sum + lengthBytes, 0)
}

/** The parts of a snapshot in the depot. Their content is read when it is needed. */
export async function partsInDepot(depot: Depot, list: string): Promise<ArrivingPart[]> {
  const { parts } = snapshotListSchema.parse(await depot.getList(list))
  return await Promise.all(parts.map((part) => partInDepot(depot, part.key, part.list)))
}

/** One part with its list. */
export async function partInDepot(depot: Depot, key: string, list: string): Promise<ArrivingPart> {
  const { chunks, memory } = partListSchema.parse(await depot.getList(list))
  if (memory === undefined) return { kind: 'archive', key, content: () => depot.load(chunks) }
  const load = (chunk: number) => depot.loadChunk(chunks[chunk] ?? '')
  return { kind: 'file', key, file: { ...memory, load } }
}

/** What a list of the depot names, for its collection. */
export function namedByList(list: unknown): { lists: readonly string[]; chunks: readonly string[] } {
  const ofSnapshot = snapshotListSchema.safeParse(list)
  if (ofSnapshot.success) return { lists: ofSnapshot.data.parts.map((part) => part.list), chunks: [] }
  return { lists: [], chunks: partListSchema.parse(list).chunks }
}
