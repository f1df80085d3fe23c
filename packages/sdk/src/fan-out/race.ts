import type { UpdateSandboxBody } from '../contract/index.ts'
import { cancelled, DormouseError, RunFailedError } from '../error.ts'
import type { Abortable } from '../options.ts'
import type { RunStreamOptions } from '../runs/run-options.ts'
import type { RunResult } from '../runs/run-result.ts'
import type { Sandbox } from '../sandbox.ts'
import { type Candidate, type Candidates, candidatesFor, requireSome } from './candidates.ts'
import { forEachConcurrently } from './for-each-concurrently.ts'
import { drop, Forks } from './forks.ts'
import { runOrThrow } from './run-or-throw.ts'
import { scoreOf } from './score.ts'

/** The score of a candidate: a Python expression to evaluate in its child, or a function of its value. */
export type Score<Value> =
  | string
  | ((value: Value, child: Sandbox, index: number) => number | Promise<number>)

export interface RaceOptions<Value = RunResult>
  extends Abortable,
    Pick<RunStreamOptions, 'language' | 'context' | 'timeoutMs'> {
  readonly score: Score<Value>
  /** The candidate of all children, for `race(n, { run, … })`. */
  readonly run?: Candidate<Value>
  /** Default: `highest`. */
  readonly best?: 'highest' | 'lowest'
  /** How many children exist at once. Default: all. */
  readonly concurrency?: number
}

export interface RaceEntry<Value = RunResult> {
  /** Starts at 1. Failed candidates come last. */
  readonly rank: number
  /** The index of the candidate. */
  readonly index: number
  readonly candidate: Candidate<Value>
  readonly score?: number
  readonly value?: Value
  /** Its code or its score failed. */
  readonly error?: Error
  readonly durationMs: number
}

export interface RaceOutcome<Value = RunResult> {
  /** The best child, which now has the policy of its parent. */
  readonly winner: Sandbox
  /** Starts with the best; `ranking[0]` is the winner's. */
  readonly ranking: readonly RaceEntry<Value>[]
}

type Entry<Value> = Omit<RaceEntry<Value>, 'rank'>

/** Throws `run_failed`, with the ranking in `details.ranking`, if all candidates failed. */
export async function raceForks<Value>(
  parent: Sandbox,
  wanted: number | readonly Candidate<Value>[],
  given: Candidates<Value> | undefined,
  options: RaceOptions<Value>,
): Promise<RaceOutcome<Value>> {
  const { signal } = options
  const candidates = candidatesOf(wanted, given, options)
  const forks = new Forks(parent, signal)
  const isBetter =
    options.best === 'lowest' ? (a: number, b: number) => a < b : (a: number, b: number) => a > b
  const { ephemeral, expires } = parent.info
  const entries: Entry<Value>[] = []
  let leader: { child: Sandbox; score: number } | undefined

  await forEachConcurrently(
    candidates,
    options.concurrency ?? candidates.length,
    async (candidate, index) => {
      const began = performance.now()
      const end = (rest: Pick<Entry<Value>, 'score' | 'value' | 'error'>) => {
        entries.push({ index, candidate, durationMs: performance.now() - began, ...rest })
      }
      let child: Sandbox | undefined
      const run = async (fork: Sandbox) => {
        child = fork
        const value = await perform(fork, candidate, index, options)
        return { value, score: await scoreOf(fork, value, index, options) }
      }
      let before: Sandbox | undefined
      try {
        const { value, score } = await forks.use(run, ({ score }) => {
          if (leader !== undefined && !isBetter(score, leader.score)) return false
          before = leader?.child
          leader = { child: child as Sandbox, score }
          return true
        })
        end({ value, score })
      } catch (error) {
        end({ error: error instanceof Error ? error : new Error(String(error)) })
      }
      if (before !== undefined) await drop(before)
    },
  )

  if (signal?.aborted) {
    if (leader !== undefined) await drop(leader.child)
    throw cancelled(signal)
  }
  const ranking = entries
    .sort((a, b) => order(a, b, isBetter))
    .map((entry, position) => ({ rank: position + 1, ...entry }))
  const winner = (leader as { child: Sandbox } | undefined)?.child
  if (winner === undefined) {
    throw new RunFailedError('run_failed', `All ${candidates.length} candidates failed`, {
      hint: '`details.ranking` has the error of each.',
      details: { ranking },
      cause: ranking[0]?.error,
    })
  }
  await winner.update({ ephemeral, expires: (expires ?? null) as NonNullable<UpdateSandboxBody['expires']> })
  return { winner, ranking }
}

function candidatesOf<Value>(
  wanted: number | readonly Candidate<Value>[],
  given: Candidates<Value> | undefined,
  { run }: RaceOptions<Value>,
): readonly Candidate<Value>[] {
  if (typeof wanted !== 'number') {
    // For callers without types: the letters of a string would become candidates.
    if (!Array.isArray(wanted) || given !== undefined)
      throw new DormouseError(
        'invalid_argument',
        `n: must be a whole number from 1 (saw ${JSON.stringify(wanted)})`,
        {
          hint: 'Give a list of candidates, or their number first.',
        },
      )
    requireSome(wanted)
    return wanted
  }
  if (given !== undefined) return candidatesFor(wanted, given)
  if (run !== undefined) return candidatesFor(wanted, [run])
  throw new DormouseError('invalid_argument', `n: there are ${wanted} children, but no candidates`, {
    hint: 'Give candidates, or `run` for all children.',
  })
}

async function perform<Value>(
  child: Sandbox,
  candidate: Candidate<Value>,
  index: number,
  { language, context, timeoutMs, signal }: RaceOptions<Value>,
): Promise<Value> {
  if (typeof candidate === 'function') return candidate(child, index, signal)
  const options = { context, timeoutMs, signal, ...(language === undefined ? {} : { language }) }
  return (await runOrThrow(child, candidate, options)) as Value
}

/** Equal scores keep the order of the candidates. */
function order<Value>(a: Entry<Value>, b: Entry<Value>, isBetter: (a: number, b: number) => boolean): number {
  if (a.score === undefined || b.score === undefined || a.score === b.score)
    return Number(a.score === undefined) - Number(b.score === undefined) || a.index - b.index
  return isBetter(a.score, b.score) ? -1 : 1
}
