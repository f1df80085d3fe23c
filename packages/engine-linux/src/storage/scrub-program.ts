import { DormouseError } from '@dormouse/contracts'
import { runCommand } from '../host/run-command.ts'
import { scrubProgram } from '../native-programs.ts'

export interface ScrubReading {
  /** Undefined: as fast as the disk allows. A limit also means idle priority. */
  readonly bytesPerSecond?: number | undefined
  readonly signal?: AbortSignal | undefined
}

export interface TreeCheck {
  readonly readBytes: number
  /** Undefined when no damage was found. */
  readonly damage: TreeDamage | undefined
  /** There were no checksums to compare with. */
  readonly isUnknown: boolean
}

export interface TreeDamage {
  readonly kind: 'changed' | 'added' | 'unreadable' | 'missing'
  /** A path from the root of the tree; for `missing`, the number of missing names. */
  readonly what: string
}

/** The size and checksum of a file, or why it cannot be read. */
export type SummedFile =
  | { readonly sizeBytes: number; readonly checksum: string }
  | { readonly error: string }

export interface FileCheck {
  readonly readBytes: number
  /** In the order of the paths. */
  readonly files: readonly SummedFile[]
}

/** Makes the checksums of a tree. `damage` means that some of it cannot be read; then no checksums are written. */
export function makeTreeSums(root: string, sums: string, reading: ScrubReading): Promise<TreeCheck> {
  return runTree('make', root, sums, reading)
}

/** Compares a tree on disk with its checksums. */
export function checkTreeSums(root: string, sums: string, reading: ScrubReading): Promise<TreeCheck> {
  return runTree('check', root, sums, reading)
}

/** Checksums of files as they are on disk; see native/src/checksum.h. */
export async function sumFiles(paths: readonly string[], reading: ScrubReading): Promise<FileCheck> {
  if (paths.length === 0) return { readBytes: 0, files: [] }
  const lines = await run(['sum', ...paths], reading)
  const files = lines.flatMap((line): SummedFile[] => {
    const [, size, checksum] = /^file (\d+) ([0-9a-f]{16})$/.exec(line) ?? []
    if (size !== undefined && checksum !== undefined) return [{ sizeBytes: Number(size), checksum }]
    const error = /^unreadable (.+)$/.exec(line)?.[1]
    return error === undefined ? [] : [{ error }]
  })
  if (files.length !== paths.length) throw failed(lines.join('\n'))
  return { readBytes: readBytes(lines), files }
}

async function runTree(
  action: 'make' | 'check',
  root: string,
  sums: string,
  reading: ScrubReading,
): Promise<TreeCheck> {
  const lines = await run([action, root, sums], reading)
  const [, kind, what] =
    lines.map((line) => /^damaged (changed|added|unreadable|missing) (.+)$/.exec(line)).find(Boolean) ?? []
  return {
    readBytes: readBytes(lines),
    damage: kind === undefined ? undefined : { kind: kind as TreeDamage['kind'], what: what ?? '' },
    isUnknown: lines.includes('unknown'),
  }
}

async function run(
  args: readonly string[],
  { bytesPerSecond, signal }: ScrubReading,
): Promise<readonly string[]> {
  const rate = String(Math.round(bytesPerSecond ?? 0))
  const { exitCode, stdout, tail, ending } = await runCommand({ argv: [scrubProgram, rate, ...args], signal })
  const lines = stdout.trim().split('\n')
  if (exitCode !== 0) throw failed(tail.join('\n') || ending)
  return lines
}

function readBytes(lines: readonly string[]): number {
  return Number(/^read (\d+)$/.exec(lines.at(-1) ?? '')?.[1] ?? 0)
}

function failed(output: string): DormouseError {
  return new DormouseError('internal', `What is stored could not be read: ${output}`, { details: { output } })
}
