import { SYNTHETIC_MAX } from '../limits.ts'

/**
 * 198.19.0.0/16 is half of the range for benchmarks (RFC 2544). It is unused on the internet, and burrows have their
 * own addresses in the other half.
 */
const PREFIX = '198.19.'
const FIRST = 1
const LAST = 0xfffe

/** Addresses that stand for names which the host's proxy resolves, because the host cannot. */
export class SyntheticAddresses {
  readonly #addresses = new Map<string, string>()
  readonly #names = new Map<string, string>()
  #next = FIRST

  addressFor(name: string): string {
    const known = this.#addresses.get(name)
    if (known !== undefined) return known
    if (this.#addresses.size >= SYNTHETIC_MAX) this.#forgetOldest()
    const address = `${PREFIX}${this.#next >> 8}.${this.#next & 0xff}`
    // An address is reused only after all others, when programs have long forgotten it.
    this.#next = this.#next === LAST ? FIRST : this.#next + 1
    this.#addresses.set(name, address)
    this.#names.set(address, name)
    return address
  }

  findName(address: string): string | undefined {
    return this.#names.get(address)
  }

  #forgetOldest(): void {
    const [name, address] = this.#addresses.entries().next().value ?? ['', '']
    this.#addresses.delete(name)
    this.#names.delete(address)
  }
}

export function isSynthetic(address: string): boolean {
  return address.startsWith(PREFIX)
}
