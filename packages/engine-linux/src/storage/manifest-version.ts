import { statSync } from 'node:fs'

/** A manifest is replaced as a whole, so one with the same version is the same. Empty when there is none. */
export function manifestVersion(path: string): string {
  const stat = statSync(path, { throwIfNoEntry: false })
  return stat === undefined ? '' : `${stat.ino} ${stat.mtimeMs} ${stat.size}`
}
