import { setTimeout as sleep } from 'node:timers/promises'
import type { GuestLink } from '../link/guest-link.ts'

const TIMEOUT_MS = 1_000
/** At once: a guest that is busy for minutes must not find the link full of them. */
const QUESTIONS_MAX = 4
const FIRST: GuestUsage = { memoryBytes: 0, pids: 2, oomKills: 0, heldBytes: undefined, usedFiles: undefined }

/** What the kernel of a guest says about the sandbox. Root of the machine can make it lie, about that machine only. */
export interface GuestUsage {
  /** With page cache. */
  readonly memoryBytes: number
  readonly pids: number
  readonly oomKills: number
  /** Without page cache. Machines that an earlier version booted do not say it. */
  readonly heldBytes: number | undefined
  /** Files and directories on the disk, with those of the template. */
  readonly usedFiles: number | undefined
}

/** Asks PID 1 of a guest. One that is stopped, busy or hostile may not answer: then the last numbers stand. */
export class GuestNumbers {
  readonly #link: Pick<GuestLink, 'control'>
  readonly #isSilent: () => boolean
  #last = FIRST
  #questions = 0
  #newest: Promise<void> | undefined

  /** `isSilent`: a guest that stands still answers when it runs again. */
  constructor(link: Pick<GuestLink, 'control'>, isSilent: () => boolean) {
    this.#link = link
    this.#isSilent = isSilent
  }

  async ask(timeoutMs = TIMEOUT_MS): Promise<GuestUsage> {
    if (this.#isSilent()) return this.#last
    if (this.#questions < QUESTIONS_MAX) this.#newest = this.#question()
    await Promise.race([this.#newest, sleep(timeoutMs, undefined, { ref: false })])
    return this.#last
  }

  /** An answer counts also when the caller no longer waits: the next one may be as late. */
  async #question(): Promise<void> {
    this.#questions += 1
    try {
      this.#take(await this.#link.control('usage'))
    } catch {
      // The last numbers stand.
    } finally {
      this.#questions -= 1
    }
  }

  #take(answer: string): void {
    const numbers = answer.split(' ').map(Number)
    const [memoryBytes, pids, kills, heldBytes, usedFiles] = numbers
    if (memoryBytes === undefined || pids === undefined || kills === undefined) return
    if (!numbers.every((number) => Number.isSafeInteger(number) && number >= 0)) return
    const oomKills = Math.max(this.#last.oomKills, kills)
    this.#last = { memoryBytes, pids: Math.max(1, pids), oomKills, heldBytes, usedFiles }
  }
}
