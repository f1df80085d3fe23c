import { stat, unlink } from 'node:fs/promises'
import { join } from 'node:path'
import { readImage, writeImage } from './image-file.ts'
import { decodeMessage, encodeMessage, findUint, getAllBytes, type Message, setBytes } from './message.ts'

const ENTRY_FILTERS = 1
const FILTER = { program: 1, next: 2 } as const

/** The first instruction of native/build/seccomp-base.bpf: it loads BASE_FILTER_MARK of native/src/base-filter.h. */
const MARK = Buffer.from([0, 0, 0, 0, 0x6d, 0x72, 0x6f, 0x64])
const NOTHING = new Uint8Array(0)

/**
 * A restored process inherits the base filter from the CRIU that restores it. It carries it when it is dumped, too, so
 * the image must not hold it: otherwise it would have one more after every wake.
 */
export async function dropBaseFilters(imageDir: string): Promise<void> {
  const path = join(imageDir, 'seccomp.img')
  if (!(await stat(path).catch(() => undefined))) return
  const image = await readImage(path)
  const records = image.records.map((record) => ({ ...record, message: withoutBase(record.message) }))
  await unlink(path)
  await writeImage(path, { ...image, records })
}

/**
 * The image lists the filters of all threads. A thread names its oldest by number, and each filter names the one that
 * was loaded after it. So that no number changes, the one after the base takes its place.
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
    // Only the oldest is ours: a process may load what it likes after it.
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

/** Nothing names it any more. */
function emptied(filter: Message): Message {
  const message = filter.filter(({ no }) => no !== FILTER.next)
  setBytes(message, FILTER.program, NOTHING)
  return message
}
