import { join } from 'node:path'
import { WireType } from '@bufbuild/protobuf/wire'
import { type ImageFile, plainRecord, readImage, writeImage } from './image-file.ts'
import { findUint, getUint, type Message, setUint } from './message.ts'
import { MAGIC } from './trailing-bytes.ts'

const REMAP = { fileId: 1, target: 2, type: 3 } as const
const TYPE_LINKED = 0n
const TYPE_GHOST = 1n
const GHOST = { uid: 1, gid: 2, mode: 3, chunks: 9, size: 10 } as const
const REMAPS = 'remap-fpath.img'
const REMAPS_MAGIC = 0x59133954

export interface Remap {
  /** The file that is not at its path. */
  readonly fileId: bigint
  /** `linked`: another file of files.img, the link that CRIU made. `ghost`: an image with its content. */
  readonly kind: 'linked' | 'ghost' | 'other'
  readonly target: bigint
}

/** What CRIU has found deleted, or not at its path, although a process has it open. */
export async function readRemaps(imageDir: string): Promise<Remap[]> {
  const { records } = await readRemapImage(imageDir)
  return records.map(({ message }) => {
    const type = findUint(message, REMAP.type) ?? TYPE_LINKED
    return {
      fileId: getUint(message, REMAP.fileId),
      kind: type === TYPE_LINKED ? 'linked' : type === TYPE_GHOST ? 'ghost' : 'other',
      target: getUint(message, REMAP.target),
    }
  })
}

async function readRemapImage(imageDir: string): Promise<ImageFile> {
  try {
    return await readImage(join(imageDir, REMAPS))
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    return { head: head(REMAPS_MAGIC), records: [] }
  }
}

/**
 * Writes what makes CRIU restore files as deleted ones: made at the path that files.img names, opened, and removed
 * again. Their content is zeros, as much as is asked for. Answers the names of the images; those of `outDir` must not
 * exist yet.
 */
export async function writeDetached(
  imageDir: string,
  outDir: string,
  files: readonly { readonly fileId: bigint; readonly mode: number; readonly sizeBytes: bigint }[],
): Promise<string[]> {
  const remaps = await readRemapImage(imageDir)
  let ghostId = 0n
  for (const { target, kind } of await readRemaps(imageDir))
    if (kind === 'ghost' && target > ghostId) ghostId = target
  const names = [REMAPS]
  for (const { fileId, mode, sizeBytes } of files) {
    ghostId += 1n
    remaps.records.push(
      plainRecord(numbers([REMAP.fileId, fileId], [REMAP.target, ghostId], [REMAP.type, TYPE_GHOST])),
    )
    const ghost = numbers([GHOST.uid, 0n], [GHOST.gid, 0n], [GHOST.mode, BigInt(mode)])
    setUint(ghost, GHOST.chunks, 1n)
    setUint(ghost, GHOST.size, sizeBytes)
    const name = `ghost-file-${ghostId.toString(16)}.img`
    await writeImage(join(outDir, name), { head: head(MAGIC.ghostFile), records: [plainRecord(ghost)] })
    names.push(name)
  }
  await writeImage(join(outDir, REMAPS), remaps)
  return names
}

function numbers(...fields: readonly (readonly [no: number, value: bigint])[]): Message {
  return fields.map(([no, value]) => ({ no, type: WireType.Varint, value }))
}

function head(kind: number): Uint8Array {
  const bytes = Buffer.alloc(8)
  bytes.writeUInt32LE(MAGIC.common)
  bytes.writeUInt32LE(kind, 4)
  return bytes
}
