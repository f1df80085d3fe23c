import { join } from 'node:path'
import { WireType } from '@bufbuild/protobuf/wire'
import { findImage, type ImageFile, plainRecord, writeImage } from './image-file.ts'
import { findUint, getUint, type Message, setUint } from './message.ts'
import { MAGIC } from './trailing-bytes.ts'

const REMAP = { fileId: 1, target: 2, type: 3 } as const
const TYPE_LINKED = 0n
const TYPE_GHOST = 1n
const GHOST = { uid: 1, gid: 2, mode: 3, chunks: 9, size: 10 } as const
const REMAPS = 'remap-fpath.img'
const REMAPS_MAGIC = 0x59133954

export interface Remap {
  /** The file that is missing at its path. */
  readonly fileId: bigint
  /**
   * `linked`: the target is another file of files.img, a link that CRIU made. `ghost`: the target is an image with the
   * content.
   */
  readonly kind: 'linked' | 'ghost' | 'other'
  readonly target: bigint
}

/** Reads which open files CRIU found deleted, or missing at their path. */
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
  return (await findImage(join(imageDir, REMAPS))) ?? { head: head(REMAPS_MAGIC), records: [] }
}

/**
 * Writes images that make CRIU restore files as deleted ones: it makes each at its path in files.img, opens it and
 * removes it again. The content is `sizeBytes` zeros. Returns the names of the images, which must not exist in `outDir`
 * yet.
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
