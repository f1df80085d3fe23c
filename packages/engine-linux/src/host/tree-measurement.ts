import { once } from 'node:events'
import { settledWithin } from '@dormouse/async'
import type { DiskUse, Measurement, StopAt } from '@dormouse/engine'
import { weighProgram } from '../native-programs.ts'
import { type Program, startProgram } from './start-program.ts'

/** Longer than any output of the program. */
const OUTPUT_MAX_CHARACTERS = 1_000

/**
 * Measures what is below a directory: perhaps millions of names, deeper than any path can be, and changing meanwhile. A
 * process of its own does it, and is stopped between turns.
 */
export class TreeMeasurement implements Measurement {
  readonly #root: string
  readonly #stopAt: StopAt
  #program: Program | undefined
  #outcome: Promise<DiskUse> | undefined

  constructor(root: string, stopAt: StopAt = {}) {
    this.#root = root
    this.#stopAt = stopAt
  }

  async advance(ms: number): Promise<DiskUse | undefined> {
    if (this.#outcome !== undefined) this.#program?.kill('SIGCONT')
    this.#outcome ??= this.#start()
    if (await settledWithin(this.#outcome, ms)) return this.#outcome
    this.#program?.kill('SIGSTOP')
    return undefined
  }

  [Symbol.dispose](): void {
    this.#program?.kill('SIGKILL')
  }

  #start(): Promise<DiskUse> {
    const { bytes = 0, files = 0 } = this.#stopAt
    const argv = [weighProgram, String(Math.ceil(bytes)), String(Math.ceil(files)), this.#root] as const
    this.#program = startProgram({ argv, stdio: ['ignore', 'pipe', 'pipe'], isDetached: true })
    const outcome = readOutcome(this.#program)
    // A caller that disposed of the measurement does not await it any more.
    outcome.catch(() => {})
    return outcome
  }
}

async function readOutcome(program: Program): Promise<DiskUse> {
  let output = ''
  const ended = [program.streams[1], program.streams[2]].map((stream) => {
    stream?.on('data', (chunk: Buffer) => {
      if (output.length < OUTPUT_MAX_CHARACTERS) output += chunk.toString('latin1')
    })
    return stream && once(stream, 'end')
  })
  await Promise.all([program.exited, ...ended])
  const [, how, bytes, files] = /^(whole|over) (\d+) (\d+)\n$/.exec(output) ?? []
  if (how === undefined)
    throw new Error(`A directory could not be measured: ${output.trim() || 'the program was killed'}`)
  return { bytes: Number(bytes), files: Number(files), isWhole: how === 'whole' }
}
