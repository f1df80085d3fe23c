import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

const LOOK_MS = 10_000
/** Of one CPU, in the time between two looks. */
const IDLE_SHARE = 0.02
/** A server that did less since the last collection has left little behind. */
const WORTH_CPU_MS = 2_000

/**
 * Gives memory back when the server has nothing to do after it had much to do. V8 collects when memory is allocated, so
 * the garbage of a busy hour would stay for as long as the server is idle. The collection takes about a millisecond for
 * each megabyte in use; a call that comes just then waits for it.
 */
export class IdleTrim implements Disposable {
  readonly #collect: () => void
  readonly #timer: NodeJS.Timeout
  #lookedAtCpuMs = cpuMs()
  #collectedAtCpuMs = 0

  constructor(collect = findCollector()) {
    this.#collect = collect
    this.#timer = setInterval(() => this.#look(), LOOK_MS).unref()
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer)
  }

  #look(): void {
    const now = cpuMs()
    const isIdle = now - this.#lookedAtCpuMs < LOOK_MS * IDLE_SHARE
    this.#lookedAtCpuMs = now
    if (!isIdle || now - this.#collectedAtCpuMs < WORTH_CPU_MS) return
    this.#collect()
    this.#collectedAtCpuMs = this.#lookedAtCpuMs = cpuMs()
  }
}

function cpuMs(): number {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1000
}

/** The function that Node offers with a flag at its start. `last-resort` also gives back pages that became empty. */
function findCollector(): () => void {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as (options: object) => void
  return () => collect({ type: 'major', flavor: 'last-resort' })
}
