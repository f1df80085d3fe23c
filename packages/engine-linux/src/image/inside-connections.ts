import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { type ImageFile, readImage, writeImage } from './image-file.ts'
import { connectedSockets, leadsOutside, streamName } from './tcp-socket.ts'
import { countAsSent } from './tcp-stream.ts'

/**
 * CRIU sends what a program had written and the kernel had not sent, when the other end may not be back yet: the kernel
 * would answer with a reset, and the restore would fail. Data that counts as sent is put into the queue silently, and
 * the kernel repeats it later. Changes images in `imageDir`. `files` is the decoded files.img.
 */
export async function restoreQueuesSilently(imageDir: string, files: ImageFile): Promise<void> {
  for (const { socket } of connectedSockets(files)) {
    if (leadsOutside(socket)) continue
    const path = join(imageDir, streamName(socket))
    const image = await readImage(path)
    const [stream] = image.records
    if (stream === undefined || !countAsSent(stream)) continue
    await rm(path)
    await writeImage(path, image)
  }
}
