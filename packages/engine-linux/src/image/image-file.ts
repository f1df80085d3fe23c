import { readFile, writeFile } from 'node:fs/promises'
import { decodeMessage, encodeMessage, type Message } from './message.ts'
import { MAGIC, TRAILING_BYTES } from './trailing-bytes.ts'

export interface ImageFile {
  /** The header: one magic number (inventory), or the common one and that of the image's type. */
  readonly head: Uint8Array
  readonly records: ImageRecord[]
}

export interface ImageRecord {
  readonly message: Message
  /** Data that follows the record, such as the content of a pipe. */
  readonly trailing: Uint8Array
}

const NOTHING = new Uint8Array(0)

/** Returns undefined for raw files: pages, archives, and other files without a magic number. */
export function parseImage(bytes: Uint8Array): ImageFile | undefined {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  if (bytes.length < 4) return undefined
  const first = view.getUint32(0, true)
  const isInventory = first === MAGIC.inventory
  if (!isInventory && ((first !== MAGIC.common && first !== MAGIC.service) || bytes.length < 8))
    return undefined
  const trailingBytes = isInventory ? undefined : TRAILING_BYTES.get(view.getUint32(4, true))
  const head = bytes.subarray(0, isInventory ? 4 : 8)

  const records: ImageRecord[] = []
  let at = head.length
  const take = (length: number) => {
    if (at + length > bytes.length)
      throw new Error(`the image ends in the middle of record ${records.length}`)
    const piece = bytes.subarray(at, at + length)
    at += length
    return piece
  }
  while (at < bytes.length) {
    if (at + 4 > bytes.length) throw new Error(`the image ends in the middle of record ${records.length}`)
    const length = view.getUint32(at, true)
    at += 4
    const message = decodeMessage(take(length))
    const follows = trailingBytes?.(message, records.length) ?? 0
    records.push({ message, trailing: take(follows === 'rest' ? bytes.length - at : follows) })
  }
  return { head, records }
}

export function serializeImage({ head, records }: ImageFile): Uint8Array {
  const pieces: Uint8Array[] = [head]
  for (const { message, trailing } of records) {
    const payload = encodeMessage(message)
    const length = Buffer.alloc(4)
    length.writeUInt32LE(payload.length)
    pieces.push(length, payload, trailing)
  }
  return Buffer.concat(pieces)
}

export async function readImage(path: string): Promise<ImageFile> {
  const image = parseImage(await readFile(path))
  if (image === undefined) throw new Error(`${path} is not a CRIU image`)
  return image
}

/** Returns undefined when there is no such file: CRIU writes many images only if they have content. */
export async function findImage(path: string): Promise<ImageFile | undefined> {
  try {
    return await readImage(path)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    return undefined
  }
}

/** For images that hold exactly one record. */
export async function readSingleRecord(path: string): Promise<Message> {
  const { records } = await readImage(path)
  const [only] = records
  if (only === undefined || records.length > 1)
    throw new Error(`${path} has ${records.length} records, not 1`)
  return only.message
}

export async function writeImage(path: string, image: ImageFile): Promise<void> {
  await writeFile(path, serializeImage(image), { flag: 'wx', mode: 0o600 })
}

export function plainRecord(message: Message): ImageRecord {
  return { message, trailing: NOTHING }
}
