import { WireType } from '@bufbuild/protobuf/wire'
import type { ImageFile } from './image-file.ts'
import { decodeMessage, findMessage, findText, getUint, type Message, setMessage } from './message.ts'

const FILE = { id: 2, inotify: 13, unixSocket: 16 } as const
const INOTIFY_WATCH = 5
const WATCH_HANDLE = 7
const HANDLE_PATH = 4
const SOCKET = { name: 11, directory: 14 } as const

/** A path that an inotify instance watches, in files.img. `path` is undefined when CRIU found none. */
export interface Watch {
  /** The inotify instance. */
  readonly fileId: bigint
  readonly path: string | undefined
}

export function readWatches({ records }: ImageFile): Watch[] {
  return records.flatMap(({ message }) => {
    const inotify = findMessage(message, FILE.inotify)
    if (inotify === undefined) return []
    const fileId = getUint(message, FILE.id)
    return inotify.flatMap((field) => {
      const watch = toWatch(field)
      return watch === undefined ? [] : { fileId, path: pathOf(watch) }
    })
  })
}

/** Removes watches. Their descriptors stay unused, so to the process the watched file is gone. */
export function dropWatches({ records }: ImageFile, isDropped: (watch: Watch) => boolean): void {
  for (const { message } of records) {
    const inotify = findMessage(message, FILE.inotify)
    if (inotify === undefined) continue
    const fileId = getUint(message, FILE.id)
    const kept = inotify.filter((field) => {
      const watch = toWatch(field)
      return watch === undefined || !isDropped({ fileId, path: pathOf(watch) })
    })
    if (kept.length < inotify.length) setMessage(message, FILE.inotify, kept)
  }
}

/** Returns the paths that Unix sockets are bound to, in files.img. Skips unnamed and abstract sockets. */
export function readSocketPaths({ records }: ImageFile): string[] {
  return records.flatMap(({ message }) => {
    const socket = findMessage(message, FILE.unixSocket)
    const name = socket && findText(socket, SOCKET.name)?.replace(/\0.*$/s, '')
    if (socket === undefined || name === undefined || name === '') return []
    const directory = findText(socket, SOCKET.directory)
    return name.startsWith('/') || directory === undefined ? name : `${directory}/${name}`
  })
}

function toWatch(field: Message[number]): Message | undefined {
  return field.no === INOTIFY_WATCH && field.type === WireType.LengthDelimited
    ? decodeMessage(field.value)
    : undefined
}

function pathOf(watch: Message): string | undefined {
  const handle = findMessage(watch, WATCH_HANDLE)
  return handle && findText(handle, HANDLE_PATH)
}
