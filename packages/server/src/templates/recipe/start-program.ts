import { setTimeout as sleep } from 'node:timers/promises'
import { withTimeout } from '@dormouse/async'
import { DormouseError, type ProcessEvent } from '@dormouse/contracts'
import type { TemplateReady } from '@dormouse/contracts/http'
import type { Burrow } from '@dormouse/engine'
import type { StepParts } from '../run-step.ts'
import { DEFAULT_PATH, DEFAULT_SHELL, type RunSettings } from './recipe.ts'

const READY_TIMEOUT_MS = 60_000
const PAUSE_MS = 250
/** A program without a sign of being ready must at least not end at once. */
const ALIVE_MS = 2_000

export interface StartProgram {
  readonly args: readonly string[]
  readonly settings: RunSettings
  readonly ready: TemplateReady | undefined
  /** What must succeed, too, once the program gives that sign. */
  readonly next?: ((signal: AbortSignal) => Promise<void>) | undefined
  /** How many times as long as usual it may take. */
  readonly patience?: number
}

/**
 * Starts a program in the sandbox and waits until it is ready. It keeps running and becomes part of what is saved next.
 * Returns the id of its process.
 */
export async function startProgram(
  { log, signal }: Pick<StepParts, 'log' | 'signal'>,
  { guest }: Pick<Burrow, 'guest'>,
  { args, settings, ready, next, patience = 1 }: StartProgram,
): Promise<string> {
  const { cwd, user } = settings
  const env = { PATH: DEFAULT_PATH, ...settings.env }
  log.say(`==> starting ${args.join(' ').slice(0, 200)}`)
  const began = performance.now()
  const process = await guest.processes.start({ args, env, cwd, user })
  const over = new AbortController()
  const whileWaiting = AbortSignal.any([signal, over.signal])
  const events = guest.processes.events(process, { signal: whileWaiting })
  const watch = new ProgramWatch(events, (text) => log.write(text))
  const sign = ready ?? healthOf(settings)
  const waiting = {
    guest,
    env,
    cwd,
    user,
    watch,
    ready: sign,
    aliveMs: ALIVE_MS * patience,
    signal: whileWaiting,
  }
  const isReady = waitUntilReady(waiting).then(() => next?.(whileWaiting))
  const timeoutMs = (ready?.timeoutMs ?? READY_TIMEOUT_MS) * patience
  try {
    await withTimeout(
      Promise.race([isReady, watch.failure]),
      timeoutMs,
      () =>
        new DormouseError(
          'setup_failed',
          `The program was not ready after ${timeoutMs} ms.${watch.lastOutput}`,
        ),
    )
  } finally {
    over.abort()
  }
  log.say(`    ready after ${((performance.now() - began) / 1000).toFixed(1)} s`)
  return process
}

/** Follows the output of the program. */
class ProgramWatch {
  /** Rejects when the program ends before it is ready. */
  readonly failure: Promise<never>
  #output = ''
  #onOutput: () => void = () => {}

  constructor(events: AsyncIterable<ProcessEvent>, onText: (text: string) => void) {
    this.failure = this.#follow(events, onText)
    // `race` may have settled before it rejects.
    this.failure.catch(() => {})
  }

  get lastOutput(): string {
    const last = this.#output.trimEnd().split('\n').at(-1)?.slice(0, 300)
    return last ? ` Its last output: ${last}` : ''
  }

  /** Resolves when the output contains the text. */
  until(text: string): Promise<void> {
    return new Promise((resolve) => {
      this.#onOutput = () => {
        if (this.#output.includes(text)) resolve()
      }
      this.#onOutput()
    })
  }

  async #follow(events: AsyncIterable<ProcessEvent>, onText: (text: string) => void): Promise<never> {
    try {
      for await (const event of events) {
        // A program that puts itself into the background has succeeded; the sign of being ready may still come.
        if (event.type === 'exit' && event.exitCode === 0 && event.signal === undefined) break
        if (event.type === 'exit')
          throw new DormouseError(
            'setup_failed',
            `The program ended with exit code ${event.exitCode} before it was ready.${this.lastOutput}`,
          )
        if (event.type !== 'stdout' && event.type !== 'stderr') continue
        onText(event.data)
        // Enough for a line that is looked for to be in it.
        this.#output = (this.#output + event.data).slice(-65_536)
        this.#onOutput()
      }
    } catch (error) {
      if (error instanceof DormouseError) throw error
    }
    return new Promise(() => {})
  }
}

interface Waiting {
  readonly guest: Burrow['guest']
  readonly env: Readonly<Record<string, string>>
  readonly cwd: string
  readonly user: string
  readonly watch: ProgramWatch
  readonly ready: { port?: number; command?: string | readonly string[]; log?: string } | undefined
  readonly aliveMs: number
  readonly signal: AbortSignal
}

async function waitUntilReady(waiting: Waiting): Promise<void> {
  const { guest, env, cwd, user, watch, ready, aliveMs, signal } = waiting
  if (ready === undefined) return void (await sleep(aliveMs, undefined, { signal }))
  if (ready.log !== undefined) return watch.until(ready.log)
  const { port, command } = ready
  for (;;) {
    signal.throwIfAborted()
    if (port !== undefined && (await listens(guest, port))) return
    if (command !== undefined) {
      const args = typeof command === 'string' ? ['/bin/sh', '-c', command] : command
      for await (const event of guest.processes.stream({ args, env, cwd, user }, { signal }))
        if (event.type === 'exit' && event.exitCode === 0) return
    }
    await sleep(PAUSE_MS, undefined, { signal })
  }
}

async function listens({ ports }: Burrow['guest'], wanted: number): Promise<boolean> {
  return (await ports.list()).some(({ port }) => port === wanted)
}

/** The health check of the image: `['CMD', …]`, `['CMD-SHELL', script]`, or the arguments themselves. */
export function healthOf({
  healthcheck,
  shell = DEFAULT_SHELL,
}: RunSettings): { command: string | readonly string[] } | undefined {
  const [first, ...rest] = healthcheck ?? []
  if (first === undefined || first === 'NONE') return undefined
  if (first === 'CMD-SHELL') return { command: [...shell, rest.join(' ')] }
  return { command: first === 'CMD' ? rest : [first, ...rest] }
}
