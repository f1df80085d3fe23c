import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Duplex } from 'node:stream'
import { onAbort } from '@dormouse/async'
import { newSnapshotId } from '@dormouse/contracts'
import type { LinuxBurrow } from '../burrow/linux-burrow.ts'
import { GUARD_IN_TOOLS } from '../guest-tools.ts'
import type { FailureLog } from '../host/failure-log.ts'
import { startProgram } from '../host/start-program.ts'
import { findElfSymbol } from '../image/elf-symbol.ts'
import { PageWorker } from '../image/page-worker.ts'
import { moveProgram } from '../native-programs.ts'
import { UID_BASE } from '../template/shifted-root.ts'

/** Less is dumped about as fast as it is moved. */
const WORTH_BYTES = 24 * 1024 ** 2
/** Copying this much and mapping it takes about five milliseconds, in which the sandbox is stopped. */
const PIECE_BYTES = 8 * 1024 ** 2
/** Each move makes files. A sandbox that is interrupted more often than this keeps the rest for its next sleep. */
const MOVES_MAX = 16
const ERROR_MAX_CHARACTERS = 2_000
/** In the order in which dormouse-move takes them. */
const GUARD_SYMBOLS = ['dormouse_guard_table', 'dormouse_guard_call', 'dormouse_guard_enter']

export interface MovedMemory {
  readonly movedBytes: number
  /** How long the sandbox was stopped for each piece. */
  readonly pausesMs: readonly number[]
}

export interface MoveMemory {
  /** The directory that the burrow sees as /.dormouse. */
  readonly toolsDir: string
  readonly failures: FailureLog
  readonly signal?: AbortSignal | undefined
}

const NOTHING: MovedMemory = { movedBytes: 0, pausesMs: [] }

/** How often memory of a burrow was moved. */
const counts = new WeakMap<LinuxBurrow, number>()

/**
 * Moves memory of a live burrow into memory files, which its processes then map, while it runs: each piece stops it for
 * some milliseconds. A dump that follows has little to write. The files belong to the burrow until it ends.
 *
 * An abort ends it after the piece it is at. What is moved stays moved, so nothing is lost or done twice. A process
 * that
 * cannot be moved is left alone. Never throws: a snapshot is possible without it.
 */
export async function moveMemory(
  burrow: LinuxBurrow,
  { toolsDir, failures, signal }: MoveMemory,
): Promise<MovedMemory> {
  // One at a time.
  while (burrow.moving !== undefined) await burrow.moving.ended
  const count = (counts.get(burrow) ?? 0) + 1
  const stop = new AbortController()
  const both = signal === undefined ? stop.signal : AbortSignal.any([signal, stop.signal])
  const ended = isWorthIt(burrow, count)
    .then((isWorth) => (isWorth ? run(burrow, { toolsDir, signal: both }) : NOTHING))
    .catch((error: unknown) => {
      const fields = { sandboxId: burrow.sandboxId, burrowId: burrow.id }
      failures.report('move', error, fields, 'memory of a live burrow was not moved')
      return NOTHING
    })
    .finally(() => {
      burrow.moving = undefined
    })
  const stopped = () => {
    stop.abort()
    return ended
  }
  burrow.moving = { stop: stopped, ended }
  const moved = await ended
  if (moved !== NOTHING) counts.set(burrow, count)
  return moved
}

async function isWorthIt(burrow: LinuxBurrow, count: number): Promise<boolean> {
  // A burrow that is ending has no cgroup.
  const ownBytes = await burrow.anonymousBytes().catch(() => 0)
  if (count > MOVES_MAX || ownBytes < WORTH_BYTES) return false
  // Processes that wait for memory, or are frozen, cannot be stopped this way.
  return !(await burrow.waitsForMemory()) && !(await burrow.isFrozen())
}

/** Post: the memory files of the burrow are on disk. An abort ends the wait. */
export async function syncMemory(burrow: LinuxBurrow, signal: AbortSignal | undefined): Promise<void> {
  const worker = new PageWorker({ ...(signal && { signal }) })
  try {
    await worker.sync([burrow.paths.memory])
  } finally {
    // Not waited for: it may hang in the disk.
    void worker[Symbol.asyncDispose]()
  }
}

async function run(
  burrow: LinuxBurrow,
  { toolsDir, signal }: { toolsDir: string; signal: AbortSignal },
): Promise<MovedMemory> {
  const argv = await moverCommand(burrow, toolsDir)
  if (argv === undefined || signal.aborted) return NOTHING
  const program = startProgram({ argv, stdio: ['pipe', 'pipe', 'pipe'] })
  const [input, answers, errors] = program.streams as [Duplex, Duplex, Duplex]
  let said = ''
  let text = ''
  errors.setEncoding('utf8').on('data', (more: string) => {
    said = (said + more).slice(0, ERROR_MAX_CHARACTERS)
  })
  answers.setEncoding('utf8').on('data', (more: string) => {
    text += more
  })
  input.on('error', () => {})
  using _stop = onAbort(signal, () => input.end())
  const { exitCode } = await program.closed
  input.destroy()
  if (exitCode !== 0) throw new Error(said.trim() || `dormouse-move ended with ${exitCode}`)
  return parseSteps(text)
}

/** The command that moves the memory of a burrow. Undefined when the burrow has the tools of an earlier release. */
export async function moverCommand(
  burrow: LinuxBurrow,
  toolsDir: string,
): Promise<[string, ...string[]] | undefined> {
  const guard = join(toolsDir, GUARD_IN_TOOLS)
  const elf = await readFile(guard)
  const offsets = GUARD_SYMBOLS.map((symbol) => findElfSymbol(elf, symbol)?.offset)
  if (offsets.includes(undefined)) return undefined
  const name = `${newSnapshotId()}m`
  const place = [burrow.freezerDir, burrow.first.pid, burrow.paths.memory, name, UID_BASE, PIECE_BYTES]
  return [moveProgram, ...[...place, guard, ...offsets].map(String)]
}

function parseSteps(text: string): MovedMemory {
  const steps = [...text.matchAll(/^step (\d+) (\d+) \d+$/gm)]
  return {
    movedBytes: steps.reduce((sum, [, bytes]) => sum + Number(bytes), 0),
    pausesMs: steps.map(([, , pauseUs]) => Number(pauseUs) / 1000),
  }
}
