import { once } from 'node:events'
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
    if (this.#outcome === undefined) this.#start()
    else this.#program?.kill('SIGCONT')
    let timer: NodeJS.Timeout | undefined
    const pause = new Promise<undefined>((resolve) => {
      timer = setTimeout(() => resolve(undefined), ms)
    })
    const use = await Promise.race([this.#outcome, pause]).finally(() => clearTimeout(timer))
    if (use === undefined) this.#program?.kill('SIGSTOP')
    return use
  }

  [Symbol.dispose](): void {
    this.#program?.kill('SIGKILL')
  }

  #start(): void {
    const { bytes = 0, files = 0 } = this.#stopAt
    const argv = [weighProgram, String(Math.ceil(bytes)), String(Math.ceil(files)), this.#root] as const
    this.#program = startProgram({ argv, stdio: ['ignore', 'pipe', 'pipe'], isDetached: true })
    this.#outcome = readOutcome(this.#program)
    // A caller that disposed of the measurement does not await it any more.
    this.#outcome.catch(() => {})
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
