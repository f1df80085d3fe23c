import { BinaryReader } from '@bufbuild/protobuf/wire'

/** Size of the header of images that start with two magic numbers. */
const HEAD_BYTES = 8
const LENGTH_BYTES = 4

/** Counts the records of an image without decoding them. Only for images without data between records. */
export function countRecords(bytes: Buffer): number {
  let count = 0
  for (let at = HEAD_BYTES; at + LENGTH_BYTES <= bytes.length; count++)
    at += LENGTH_BYTES + bytes.readUInt32LE(at)
  return count
}

/** Counts how often a field occurs in the first record of an image. */
export function countFields(bytes: Buffer, no: number): number {
  if (bytes.length < HEAD_BYTES + LENGTH_BYTES) return 0
  const start = HEAD_BYTES + LENGTH_BYTES
  const reader = new BinaryReader(bytes.subarray(start, start + bytes.readUInt32LE(HEAD_BYTES)))
  let count = 0
  while (reader.pos < reader.len) {
    const [found, type] = reader.tag()
    if (found === no) count++
    reader.skip(type)
  }
  return count
}
