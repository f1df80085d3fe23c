import { existsSync } from 'node:fs'
import { rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { DormouseError } from '@dormouse/contracts'
import { runCommand } from '../host/run-command.ts'
import { carryProgram } from '../native-programs.ts'
import type { OpenFiles } from './open-files.ts'

/**
 * The agent's log is excluded: no program remembers its inode number, and for most snapshots it is the only file open
 * for writing.
 */
const AGENT_LOG = '/var/log/dormouse-agent.log'

/** Name of the file, in the directory of a dump, that lists the files open for writing. */
const WRITTEN = 'written-paths'

/** Writes that list. Returns false when there are none. */
export async function listWritten(files: OpenFiles, rawDir: string): Promise<boolean> {
  const paths = files.writtenPaths.filter((path) => path.startsWith('/') && path !== AGENT_LOG)
  if (paths.length === 0) return false
  const list = [...new Set(paths)].map((path) => `${path.slice(1)}\0`).join('')
  await writeFile(join(rawDir, WRITTEN), list)
  return true
}

/**
 * When a program reopens a file for writing, overlayfs copies it to the new upper directory, and some of these files
 * would get another inode number. This lists them. `copyCarried` copies them beforehand, so that they keep their
 * number: see native/src/carry.c.
 * Returns false and writes no list when there are none. Pre: `listWritten` returned true.
 */
export async function listCarried(carry: { rawDir: string; layer: string; list: string }): Promise<boolean> {
  await runCarry(['find', carry.layer, carry.list], join(carry.rawDir, WRITTEN))
  if ((await stat(carry.list)).size > 0) return true
  await rm(carry.list)
  return false
}

export async function copyCarried(carry: {
  list: string
  layer: string | undefined
  upper: string
}): Promise<void> {
  if (carry.layer !== undefined && existsSync(carry.list))
    await runCarry(['copy', carry.layer, carry.upper], carry.list)
}

async function runCarry(args: readonly string[], stdinFile: string): Promise<void> {
  const { exitCode, tail, ending } = await runCommand({ argv: [carryProgram, ...args], stdinFile })
  if (exitCode === 0) return
  const isFull = tail.some((line) => line.includes('No space left') || line.includes('quota exceeded'))
  throw new DormouseError(isFull ? 'no_space' : 'internal', `Open files could not be kept: ${ending}.`, {
    details: { output: tail },
  })
}
