import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { findImage, writeImage } from './image-file.ts'
import { findUint, getUint, type Message } from './message.ts'

const PIPE_DATA = { bytes: 2, size: 3 } as const
/** The kernel's default size of a pipe. */
const DEFAULT_SIZE_BYTES = 65_536n
/** The kernel's minimum, for a user who has used up the pages for pipes. */
const LEAST_SIZE_BYTES = 8_192n

/**
 * CRIU sets the size of every pipe that it restores, and fails when the kernel refuses. The kernel refuses once the
 * processes of one uid have too many pipe pages, and all sandboxes share their uids: a sandbox with many pipes would
 * keep others from waking. So this removes the size of pipes that have the default. The kernel then gives them the
 * default size, or a smaller one when pages are short.
 */
export async function mendPipes(imageDir: string): Promise<void> {
  for (const name of ['pipes-data.img', 'fifo-data.img']) {
    const path = join(imageDir, name)
    const image = await findImage(path)
    if (image === undefined) continue
    const records = image.records.map((record) => ({ ...record, message: mendPipe(record.message) }))
    await rm(path)
    await writeImage(path, { ...image, records })
  }
}

export function mendPipe(pipe: Message): Message {
  const isUsual = findUint(pipe, PIPE_DATA.size) === DEFAULT_SIZE_BYTES
  const fits = getUint(pipe, PIPE_DATA.bytes) <= LEAST_SIZE_BYTES
  return isUsual && fits ? pipe.filter(({ no }) => no !== PIPE_DATA.size) : pipe
}
