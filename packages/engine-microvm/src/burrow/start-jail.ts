import { readFile } from 'node:fs/promises'
import { DormouseError } from '@dormouse/contracts'
import { type FirstProcess, type Program, startProgram } from '@dormouse/engine-linux/for-engines'

/** A program in its jail, and the process outside that can give it more to read, once. */
export interface Jailed {
  readonly first: FirstProcess
  /** Binds files of the host into the jail, read-only. */
  bind(entries: readonly (readonly [source: string, target: string])[]): Promise<void>
}

/** See native/src/jail.c. The process outside ends with this one. */
export async function startJail(argv: readonly string[], signal?: AbortSignal): Promise<Jailed> {
  signal?.throwIfAborted()
  const [file = '', ...rest] = argv
  const program = startProgram({
    argv: [file, ...rest],
    env: {},
    isDetached: true,
    stdio: ['pipe', 'pipe', 'ignore'],
  })
  const answers = new Answers(program)
  const pid = Number(/^pid (\d+)$/.exec(await answers.next())?.[1])
  if (!Number.isInteger(pid)) throw notStarted(answers.last)
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '')
  const startTime = stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19] ?? ''
  const [input] = program.streams
  input?.on('error', () => {})
  return {
    first: { pid, startTime },
    async bind(entries) {
      const lines = entries.map(([source, target]) => `${source}\t${target}\n`)
      input?.end(`${lines.join('')}\n`)
      if ((await answers.next()) !== 'bound') throw notStarted(answers.last)
    },
  }
}

/** What the process outside writes, line by line; empty when it has ended. */
class Answers {
  last = ''
  #text = ''
  #isOver = false
  #wake: () => void = () => {}

  constructor(program: Program) {
    const [, output] = program.streams
    output?.on('data', (chunk: Buffer) => {
      this.#text += chunk.toString('utf8')
      this.#wake()
    })
    void program.closed.then(() => {
      this.#isOver = true
      this.#wake()
    })
  }

  async next(): Promise<string> {
    while (!this.#text.includes('\n') && !this.#isOver)
      await new Promise<void>((resolve) => {
        this.#wake = resolve
      })
    const [line = '', ...rest] = this.#text.split('\n')
    this.#text = rest.join('\n')
    this.last = line
    return line
  }
}

function notStarted(said: string): DormouseError {
  const why = said.trim() || 'no reason given'
  return new DormouseError('burrow_start_failed', `QEMU cannot be started: ${why}`)
}
