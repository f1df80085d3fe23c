import { chmod, readdir, readFile } from 'node:fs/promises'
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
import { countMoves, rememberMove, removeUnusedMoves } from './moved-files.ts'

/** A sandbox that has just woken has 7 MB. Less than this is dumped about as fast as it is moved. */
const WORTH_BYTES = 12 * 1024 ** 2
/** Copying this much and mapping it takes about five milliseconds, in which the sandbox is stopped. */
const PIECE_BYTES = 8 * 1024 ** 2
/** For a sandbox that answers no calls meanwhile, because it is being saved. */
const LARGE_PIECE_BYTES = 64 * 1024 ** 2
/** Of moves whose files are mapped. A sandbox that is interrupted more often keeps the rest for its next sleep. */
const MOVES_MAX = 16
/** A move that takes longer ends. The dump takes the rest. */
const MOVE_MAX_MS = 60_000
/** The mover ends itself earlier than this when it hangs with the burrow stopped. */
const END_MAX_MS = 10_000
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
  /** Calls wait for it, so fewer and longer pauses are better. */
  readonly isSaving?: boolean
  /** No caller waits until the memory is on disk. */
  readonly isUnsynced?: boolean | undefined
}

const NOTHING: MovedMemory = { movedBytes: 0, pausesMs: [] }

/**
 * Moves memory of a live burrow into memory files, which its processes then map, while it runs: each piece stops it for
 * some milliseconds. A dump that follows has little to write. The files belong to the burrow until it ends.
 *
 * An abort ends it after the piece it is at. What is moved stays moved, so nothing is lost or done twice. A process that
 * cannot be moved is left alone. Never throws: a snapshot is possible without it.
 */
export async function moveMemory(
  burrow: LinuxBurrow,
  { failures, signal, ...how }: MoveMemory,
): Promise<MovedMemory> {
  // One at a time.
  while (burrow.moving !== undefined) await burrow.moving.ended
  const stop = new AbortController()
  using _callers = onAbort(signal, () => stop.abort())
  const tooLong = setTimeout(() => stop.abort(), MOVE_MAX_MS)
  const ended = isWorthMoving(burrow)
    .then((isWorth) => (isWorth ? moveOnce(burrow, { ...how, signal: stop.signal }) : NOTHING))
    .catch((error: unknown) => {
      const fields = { sandboxId: burrow.sandboxId, burrowId: burrow.id }
      failures.report('move', error, fields, 'memory of a live burrow was not moved')
      return NOTHING
    })
    .finally(() => {
      clearTimeout(tooLong)
      burrow.moving = undefined
    })
  const stopped = () => {
    stop.abort()
    return ended
  }
  burrow.moving = { stop: stopped, ended }
  return await ended
}

/** Whether a move would make the next dump shorter. Never throws. */
export async function isWorthMoving(burrow: LinuxBurrow): Promise<boolean> {
  try {
    if ((await burrow.anonymousBytes()) < WORTH_BYTES) return false
    // Processes that wait for memory, or are frozen, cannot be stopped this way.
    return !(await burrow.waitsForMemory()) && !(await burrow.isFrozen())
  } catch {
    // A burrow that is ending has no cgroup.
    return false
  }
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

type How = Omit<MoveMemory, 'failures' | 'signal'>

async function moveOnce(burrow: LinuxBurrow, how: How & { signal: AbortSignal }): Promise<MovedMemory> {
  await removeUnusedMoves(burrow)
  return countMoves(burrow) < MOVES_MAX ? run(burrow, how) : NOTHING
}

async function run(
  burrow: LinuxBurrow,
  { signal, ...how }: How & { signal: AbortSignal },
): Promise<MovedMemory> {
  const command = await moverCommand(burrow, how)
  if (command === undefined || signal.aborted) return NOTHING
  const { argv, filesName } = command
  rememberMove(burrow, filesName)
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
  let killing: NodeJS.Timeout | undefined
  using _stop = onAbort(signal, () => {
    input.end()
    killing = setTimeout(() => program.kill('SIGKILL'), END_MAX_MS)
  })
  const { exitCode } = await program.closed
  clearTimeout(killing)
  input.destroy()
  if (exitCode === 0) return parseSteps(text)
  await makePrivate(burrow, filesName)
  throw new Error(said.trim() || `dormouse-move ended with ${exitCode}`)
}

/** A mover that was killed may leave a file that all users inside can read. */
async function makePrivate({ paths: { memory } }: LinuxBurrow, filesName: string): Promise<void> {
  for (const name of await readdir(memory))
    if (name.startsWith(filesName)) await chmod(join(memory, name), 0o400)
}

/** The command that moves the memory of a burrow. Undefined when the burrow has the tools of an earlier release. */
export async function moverCommand(
  burrow: LinuxBurrow,
  { toolsDir, isSaving = false, isUnsynced = false }: How,
): Promise<{ argv: [string, ...string[]]; filesName: string } | undefined> {
  const guard = join(toolsDir, GUARD_IN_TOOLS)
  const elf = await readFile(guard)
  const offsets = GUARD_SYMBOLS.map((symbol) => findElfSymbol(elf, symbol)?.offset)
  if (offsets.includes(undefined)) return undefined
  const filesName = `${newSnapshotId()}m`
  const place = [burrow.freezerDir, burrow.first.pid, burrow.paths.memory, filesName, UID_BASE]
  const pace = [isSaving ? LARGE_PIECE_BYTES : PIECE_BYTES, Number(!isUnsynced)]
  return { argv: [moveProgram, ...[...place, ...pace, guard, ...offsets].map(String)], filesName }
}

function parseSteps(text: string): MovedMemory {
  const steps = [...text.matchAll(/^step (\d+) (\d+) \d+$/gm)]
  return {
    movedBytes: steps.reduce((sum, [, bytes]) => sum + Number(bytes), 0),
    pausesMs: steps.map(([, , pauseUs]) => Number(pauseUs) / 1000),
  }
}
