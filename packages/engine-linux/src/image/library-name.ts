import type { BigIntStats } from 'node:fs'

const PREFIX = 'library-'

/** Name of a snapshot's copy of a program or library from a volume. It identifies the version of the file. */
export function libraryName({ ino, mtimeNs, size }: BigIntStats): string {
  return `${PREFIX}${ino}-${mtimeNs}-${size}`
}

export function isLibraryCopy(name: string): boolean {
  return name.startsWith(PREFIX)
}
