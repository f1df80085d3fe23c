import { existsSync } from 'node:fs'
import { basename, join } from 'node:path'

/** Exists while memory of a snapshot is on its way. It has a map for each memory file of which pages are missing. */
export function arrivingDir(snapshotDir: string): string {
  return join(snapshotDir, 'arriving')
}

/** What is left of it when all memory has arrived, for a moment. */
export function arrivedDir(snapshotDir: string): string {
  return join(snapshotDir, 'arrived')
}

/** Whether pages of a memory file are missing: then its content says nothing yet. */
export function isArriving(snapshotDir: string, memoryFile: string): boolean {
  return existsSync(join(arrivingDir(snapshotDir), basename(memoryFile)))
}
