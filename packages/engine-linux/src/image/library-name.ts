import type { BigIntStats } from 'node:fs'

const PREFIX = 'library-'

/** Name of a snapshot's copy of a program or library on a volume. It tells which version of the file was copied. */
export function libraryName({ ino, mtimeNs, size }: BigIntStats): string {
  return `${PREFIX}${ino}-${mtimeNs}-${size}`
}

export function isLibraryCopy(name: string): boolean {
  return name.startsWith(PREFIX)
}
