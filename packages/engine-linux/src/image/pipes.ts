import { rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { readImage, writeImage } from './image-file.ts'
import { findUint, getUint, type Message } from './message.ts'

const PIPE_DATA = { bytes: 2, size: 3 } as const
/** What a pipe has when nobody asked for another size. */
const DEFAULT_SIZE_BYTES = 65_536n
/** What the kernel gives at least, to a user who has used up the pages for pipes. */
const LEAST_SIZE_BYTES = 8_192n

/**
 * CRIU sets the size of every pipe it restores, and gives up when the kernel refuses. The kernel does refuse once the
 * pipes of all processes of a uid are too many, and all sandboxes share their uids: one that opens many pipes would
 * keep the others from waking. A pipe of the usual size gets that size by itself, or a smaller one in such times, which
 * is no reason not to wake.
 */
export async function mendPipes(imageDir: string): Promise<void> {
  for (const name of ['pipes-data.img', 'fifo-data.img']) {
    const path = join(imageDir, name)
    if (!(await stat(path).catch(() => undefined))) continue
    const image = await readImage(path)
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
