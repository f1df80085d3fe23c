import { unlink } from 'node:fs/promises'
import { join } from 'node:path'
import { findImage, writeImage } from './image-file.ts'
import { decodeMessage, encodeMessage, findUint, getAllBytes, type Message, setBytes } from './message.ts'

const ENTRY_FILTERS = 1
const FILTER = { program: 1, next: 2 } as const

/** The first instruction of native/build/seccomp-base.bpf, which loads BASE_FILTER_MARK of native/src/base-filter.h. */
const MARK = Buffer.from([0, 0, 0, 0, 0x6d, 0x72, 0x6f, 0x64])
const NOTHING = new Uint8Array(0)

/**
 * A restored process inherits the base filter from the CRIU that restores it. A dump contains that filter too. This
 * removes it from the image; otherwise the process would have one more after every wake.
 */
export async function dropBaseFilters(imageDir: string): Promise<void> {
  const path = join(imageDir, 'seccomp.img')
  const image = await findImage(path)
  if (image === undefined) return
  const records = image.records.map((record) => ({ ...record, message: withoutBase(record.message) }))
  await unlink(path)
  await writeImage(path, { ...image, records })
}

/**
 * The image lists the filters of all threads. A thread refers to its oldest filter by index, and each filter to the one
 * loaded after it. The filter after the base takes its place, so that no index changes.
 */
export function withoutBase(entry: Message): Message {
  const filters = getAllBytes(entry, ENTRY_FILTERS).map(decodeMessage)
  const nextOf = (filter: Message | undefined) => {
    const next = filter && findUint(filter, FILTER.next)
    return next === undefined ? undefined : Number(next)
  }
  const followers = new Set(filters.map(nextOf))
  const kept = [...filters]
  filters.forEach((filter, index) => {
    const next = nextOf(filter)
    const follower = next === undefined ? undefined : filters[next]
    // Only the oldest filter is ours: a process may load any filter after it.
    if (followers.has(index) || !isBase(filter) || next === undefined || follower === undefined) return
    kept[index] = follower
    kept[next] = emptied(follower)
  })
  const values = kept.map(encodeMessage)
  return entry.map((field) => {
    if (field.no !== ENTRY_FILTERS) return field
    const [value] = values.splice(0, 1)
    return { ...field, value } as typeof field
  })
}

function isBase(filter: Message): boolean {
  const [program] = getAllBytes(filter, FILTER.program)
  return program !== undefined && MARK.equals(program.subarray(0, MARK.length))
}

/** Makes a filter that nothing refers to any more empty. */
function emptied(filter: Message): Message {
  const message = filter.filter(({ no }) => no !== FILTER.next)
  setBytes(message, FILTER.program, NOTHING)
  return message
}
