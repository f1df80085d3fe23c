import { chmod, constants, copyFile, link, mkdir, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { readImage, writeImage } from './image-file.ts'
import { connectedSockets, disconnect, keysOf, putSocket, streamName } from './tcp-socket.ts'
import { queuedBytes } from './tcp-stream.ts'

const FILES = 'files.img'

export interface CloseConnections {
  readonly imagesDir: string
  /** A directory that does not exist yet. */
  readonly workDir: string
  /** Closes connections with this many bytes in a queue. Undefined: all connections. */
  readonly queueBytes: number | undefined
}

/**
 * Makes `workDir`, with images in which connections that cannot be restored are closed. Programs find a socket that is
 * not connected. Both ends are closed where both are inside: one alone would wait for the other. Returns how many
 * sockets it closed.
 */
export async function closeConnections({
  imagesDir,
  workDir,
  queueBytes,
}: CloseConnections): Promise<number> {
  const files = await readImage(join(imagesDir, FILES))
  const sockets = [...connectedSockets(files)]
  const closed = new Set<string>()
  for (const { socket } of sockets) {
    if (queueBytes !== undefined && !(await hasQueue(join(imagesDir, streamName(socket)), queueBytes)))
      continue
    const { key, otherKey } = keysOf(socket)
    closed.add(key).add(otherKey)
  }
  let count = 0
  for (const { record, socket } of sockets) {
    if (!closed.has(keysOf(socket).key)) continue
    disconnect(socket)
    putSocket(record, socket)
    count += 1
  }
  await mkdir(workDir, { mode: 0o755 })
  for (const name of await readdir(imagesDir)) {
    const [source, target] = [join(imagesDir, name), join(workDir, name)]
    if (name === FILES) await writeImage(target, files)
    // On failure copies: another file system, or one without hard links.
    else
      await link(source, target).catch(() =>
        copyFile(source, target, constants.COPYFILE_EXCL | constants.COPYFILE_FICLONE),
      )
  }
  // CRIU restores without privileges over the host; the directory above keeps other users out.
  await chmod(join(workDir, FILES), 0o644)
  return count
}

async function hasQueue(path: string, bytes: number): Promise<boolean> {
  const [stream] = (await readImage(path)).records
  if (stream === undefined) return false
  const { received, written, unsent } = queuedBytes(stream)
  // CRIU restores what was sent and what was not in two parts.
  return [received, written - unsent, unsent].includes(bytes)
}
