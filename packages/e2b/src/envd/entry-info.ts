import { posix } from 'node:path'
import type { FileStat, Guest } from '@dormouse/engine'
import { type EntryInfo, FILE_TYPE } from '../wire/filesystem.ts'

/** A file as E2B describes it: a link has the type and mode of what it leads to. */
export async function entryOf(guest: Guest, stat: FileStat, path = stat.path): Promise<EntryInfo> {
  if (stat.type !== 'symlink') return describe(stat, { path, type: typeOf(stat), mode: stat.mode & 0o777 })
  const symlinkTarget = posix.resolve(posix.dirname(stat.path), stat.target ?? '')
  try {
    const target = await guest.files.stat(stat.path, { user: 'root', follow: true })
    const { type, mode } = { type: typeOf(target), mode: target.mode & 0o777 }
    return { ...describe(stat, { path, type, mode }), symlinkTarget }
  } catch {
    // The link leads nowhere.
    return { ...describe(stat, { path, type: 0, mode: 0 }), symlinkTarget: stat.path }
  }
}

function describe(
  stat: FileStat,
  { path, type, mode }: { path: string; type: number; mode: number },
): EntryInfo {
  return {
    name: stat.name,
    type,
    path,
    size: BigInt(stat.sizeBytes),
    mode,
    permissions: permissionsOf(stat),
    owner: stat.user,
    group: stat.group,
    modifiedTime: {
      seconds: BigInt(Math.floor(stat.modifiedAt / 1000)),
      nanos: Math.floor((stat.modifiedAt % 1000) * 1e6),
    },
    metadata: metadataIn(stat),
  }
}

/** Metadata of files are extended attributes with this prefix. */
export const METADATA_PREFIX = 'e2b.'

function metadataIn({ attributes = {} }: FileStat): Record<string, string> {
  const own = Object.entries(attributes).filter(([name]) => name.startsWith(METADATA_PREFIX))
  return Object.fromEntries(own.map(([name, value]) => [name.slice(METADATA_PREFIX.length), value]))
}

export function typeOf({ type }: FileStat): number {
  return type === 'file' || type === 'directory' || type === 'symlink' ? FILE_TYPE[type] : 0
}

const KINDS: Partial<Record<FileStat['type'], string>> = {
  directory: 'd',
  symlink: 'L',
  fifo: 'p',
  socket: 'S',
}

/** As Go writes it: `-rw-r--r--`. */
function permissionsOf({ type, mode }: FileStat): string {
  const bits = [...'rwxrwxrwx'].map((letter, index) => ((mode >> (8 - index)) & 1 ? letter : '-'))
  return `${KINDS[type] ?? '-'}${bits.join('')}`
}
