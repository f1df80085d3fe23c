import { settledWithin } from '@dormouse/async'
import { hasErrorCode } from '@dormouse/contracts'
import type { Burrow, Guest } from '@dormouse/engine'
import { isSilent } from '@dormouse/guest'
import { requireMemoryLimit } from './paused.ts'
import type { Sandbox } from './sandbox.ts'
import type { UseOptions } from './use-options.ts'

/** How many connections in a row may break before the first item. */
const ATTEMPTS = 4
/** A connection breaks a moment before the server hears that the burrow has ended. */
const END_NOTICE_MS = 200

export interface AttachOptions extends UseOptions {
  readonly kind?: 'run' | 'stream' | 'connection'
}

/** See `Sandbox.attach`. */
export async function* attach<Item>(
  sandbox: Sandbox,
  options: AttachOptions,
  open: (guest: Guest) => AsyncIterable<Item>,
): AsyncGenerator<Item> {
  using attachment = new Attachment(sandbox, options)
  for (;;) {
    const guest = await attachment.connect()
    try {
      for await (const item of open(guest)) {
        attachment.received()
        yield item
      }
      return
    } catch (error) {
      await attachment.reconnectAfter(error)
      // What this follows continues when the limit is raised; the caller would wait until then and not know why.
      requireMemoryLimit(sandbox.row)
    }
  }
}

export interface AttachmentOptions extends AttachOptions {
  /**
   * When it wakes the sandbox: for the first connection (the default), until the first item has come, or not at all.
   */
  readonly wakes?: 'first' | 'until_received' | 'never'
  /** False: the caller decides for itself how long the sandbox stays awake. */
  readonly keepsAwake?: false
}

/**
 * A connection to the guest of a sandbox that moves with the sandbox from burrow to burrow. Keeps the sandbox awake
 * until disposed, unless the options say otherwise.
 */
export class Attachment implements Disposable {
  readonly #sandbox: Sandbox
  readonly #options: AttachmentOptions
  readonly #work: Disposable | undefined
  #burrow: Burrow | undefined
  #mayWake: boolean
  #failures = 0

  constructor(sandbox: Sandbox, options: AttachmentOptions) {
    this.#sandbox = sandbox
    this.#options = options
    if (options.keepsAwake !== false) this.#work = sandbox.work.begin(options.kind ?? 'stream', options.what)
    this.#mayWake = options.wakes !== 'never'
  }

  [Symbol.dispose](): void {
    this.#work?.[Symbol.dispose]()
  }

  /** The guest of the burrow that the sandbox runs in. Waits until it runs; wakes it only as the options say. */
  async connect(signal = this.#options.signal): Promise<Guest> {
    const { cause, wakes } = this.#options
    const sandbox = this.#sandbox
    // Another caller may put it to sleep right after the wake.
    while (this.#mayWake && sandbox.runningBurrow() === undefined) await sandbox.wake(cause, signal)
    const burrow = await sandbox.nextBurrow(signal)
    const preparing = sandbox.preparing(burrow)
    if (preparing !== undefined) await preparing
    this.#mayWake &&= wakes === 'until_received'
    // Sleeps are no failures, however many there are before the next item.
    if (burrow !== this.#burrow) this.#failures = 0
    this.#burrow = burrow
    return burrow.guest
  }

  /** An item has come: the connection works. */
  received(): void {
    this.#failures = 0
    this.#mayWake = false
  }

  /** Returns when it is worth connecting again. Throws `error` when it is not. */
  async reconnectAfter(error: unknown): Promise<void> {
    const { signal } = this.#options
    // A silent agent would make each attempt wait as long.
    if (!isDisconnect(error) || isSilent(error) || signal?.aborted || this.#failures === ATTEMPTS) throw error
    this.#failures += 1
    // Wait for the transition that ended the burrow, or until the burrow is known to have ended.
    const { lock } = this.#sandbox
    if (!lock.isWriting && this.#burrow !== undefined) await settledWithin(this.#burrow.ended, END_NOTICE_MS)
    const held = await lock.read(signal)
    held.release()
  }
}

/** The burrow is being saved or has ended, or its agent cannot be reached. */
export function isDisconnect(error: unknown): boolean {
  return hasErrorCode(error, 'agent_unreachable') || hasErrorCode(error, 'burrow_ended')
}
