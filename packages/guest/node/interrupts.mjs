import { fileURLToPath } from 'node:url'
import { Worker } from 'node:worker_threads'

/**
 * Interrupts come twice: as a message, and as a byte on the interrupt pipe. If the event loop is free, the message ends
 * the run. If JavaScript keeps it busy, the thread that reads the pipe sees that the run does not end, and makes V8
 * terminate what runs.
 */
export class Interrupts {
  /** The number of the active run, 0 between runs. The thread reads it. */
  #active = new Int32Array(new SharedArrayBuffer(4))
  #runs = 0
  /** @type {(() => void) | undefined} */
  #onInterrupt

  /** @param {number} pipe */
  constructor(pipe) {
    const worker = new Worker(fileURLToPath(new URL('./interrupt-thread.mjs', import.meta.url)), {
      workerData: { pipe, active: this.#active },
      // Nothing of the user's command line belongs into this thread.
      execArgv: [],
      env: {},
      resourceLimits: { maxOldGenerationSizeMb: 16, maxYoungGenerationSizeMb: 1 },
    })
    worker.on('error', () => {})
    worker.unref()
  }

  /**
   * Pre: no run is active.
   * @param {() => void} onInterrupt called at most once, unless `disarm` comes first
   */
  arm(onInterrupt) {
    this.#onInterrupt = onInterrupt
    this.#runs = (this.#runs % 0x3fffffff) + 1
    Atomics.store(this.#active, 0, this.#runs)
  }

  disarm() {
    Atomics.store(this.#active, 0, 0)
    Atomics.notify(this.#active, 0)
    this.#onInterrupt = undefined
  }

  /** Does nothing between runs. */
  interrupt() {
    const onInterrupt = this.#onInterrupt
    this.disarm()
    onInterrupt?.()
  }
}
