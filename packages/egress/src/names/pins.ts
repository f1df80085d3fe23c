import { PIN_MAX_MS, PIN_MIN_MS, PINS_MAX } from '../limits.ts'

/** The names under which our resolver told a sandbox an address. Domain rules reach these addresses only. */
export class Pins {
  /** In the order of the last `add`: the first is the oldest. */
  readonly #expiry = new Map<string, number>()
  readonly #names = new Map<string, Set<string>>()
  readonly #now: () => number

  constructor(now: () => number = () => performance.now()) {
    this.#now = now
  }

  add(name: string, address: string, ttlSeconds: number): void {
    const key = `${address} ${name}`
    this.#expiry.delete(key)
    this.#expiry.set(key, this.#now() + Math.min(PIN_MAX_MS, Math.max(PIN_MIN_MS, ttlSeconds * 1000)))
    const names = this.#names.get(address) ?? new Set()
    this.#names.set(address, names.add(name))
    if (this.#expiry.size > PINS_MAX) this.#remove(this.#expiry.keys().next().value ?? '')
  }

  namesOf(address: string): readonly string[] {
    const now = this.#now()
    for (const name of this.#names.get(address) ?? []) {
      const key = `${address} ${name}`
      if ((this.#expiry.get(key) ?? 0) <= now) this.#remove(key)
    }
    return [...(this.#names.get(address) ?? [])]
  }

  get size(): number {
    return this.#expiry.size
  }

  #remove(key: string): void {
    this.#expiry.delete(key)
    const [address = '', name = ''] = key.split(' ')
    const names = this.#names.get(address)
    names?.delete(name)
    if (names?.size === 0) this.#names.delete(address)
  }
}
