import { DormouseError, isProcessId } from '@dormouse/contracts'

/** The latest time that a JavaScript Date can hold. */
const TIME_MAX_MS = 8.64e15
/** Far beyond any journal; sums with it stay exact. */
const COUNT_MAX = 2 ** 48
const INT32_MAX = 2 ** 31 - 1

/**
 * Reads the fields of an object that the agent sent. Sandbox code can take over the agent, so a missing or wrong
 * field fails the call, and only the fields read here reach the host.
 */
export class AgentValue {
  readonly #fields: Readonly<Record<string, unknown>>
  readonly #what: string

  /** `what` names the object in the error. */
  constructor(value: unknown, what: string) {
    this.#fields = typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {}
    this.#what = what
  }

  has(name: string): boolean {
    return this.#fields[name] !== undefined
  }

  text(name: string): string {
    const value = this.#fields[name]
    return typeof value === 'string' ? value : this.fail()
  }

  oneOf<const Word extends string>(name: string, words: readonly Word[]): Word {
    return words.find((word) => word === this.#fields[name]) ?? this.fail()
  }

  flag(name: string): boolean {
    const value = this.#fields[name]
    return typeof value === 'boolean' ? value : this.fail()
  }

  isTrue(name: string): boolean {
    return this.#fields[name] === true
  }

  /** A length, a position or a number of items. */
  count(name: string): number {
    return this.#integer(name, 0, COUNT_MAX)
  }

  pid(name: string): number {
    return this.#integer(name, 1, INT32_MAX)
  }

  processId(name: string): string {
    const value = this.text(name)
    return isProcessId(value) ? value : this.fail()
  }

  port(name: string): number {
    return this.#integer(name, 1, 65_535)
  }

  exitCode(name: string): number {
    return this.#integer(name, -INT32_MAX, INT32_MAX)
  }

  /** Milliseconds since the epoch. */
  time(name: string): number {
    return this.#integer(name, -TIME_MAX_MS, TIME_MAX_MS)
  }

  durationMs(name: string): number {
    const value = this.#fields[name]
    return typeof value === 'number' && value >= 0 && value <= TIME_MAX_MS ? value : this.fail()
  }

  object(name: string): Record<string, unknown> {
    const value = this.#fields[name]
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : this.fail()
  }

  list(name: string): readonly unknown[] {
    const value = this.#fields[name]
    return Array.isArray(value) ? value : this.fail()
  }

  fail(): never {
    throw malformed(this.#what)
  }

  #integer(name: string, min: number, max: number): number {
    const value = this.#fields[name]
    return Number.isInteger(value) && (value as number) >= min && (value as number) <= max
      ? (value as number)
      : this.fail()
  }
}

export function malformed(what: string): DormouseError {
  return new DormouseError('agent_unreachable', `The agent sent a malformed ${what}.`)
}
