const [SEED_ONE, SEED_TWO] = [0x811c9dc5, 0x9747b28c]
const [FACTOR_ONE, FACTOR_TWO] = [0x01000193, 0x5bd1e995]
const END = 0

/**
 * Adds up a checksum of every record of a stream, in any order. A record is two fields, each with a NUL at its end. Millions of records
 * pass here, in the thread that everybody's calls pass through: bytes are mixed as they come, and nothing is kept. It finds accidents.
 */
export class RecordSum {
  #records = 0
  #isSecondField = false
  #one = SEED_ONE
  #two = SEED_TWO
  #sumOne = 0
  #sumTwo = 0

  get count(): number {
    return this.#records
  }

  /** 16 hexadecimal digits. */
  get sum(): string {
    return [this.#sumOne, this.#sumTwo].map((half) => (half >>> 0).toString(16).padStart(8, '0')).join('')
  }

  add(chunk: Uint8Array): void {
    let [one, two] = [this.#one, this.#two]
    for (const byte of chunk) {
      one = Math.imul(one ^ byte, FACTOR_ONE)
      two = Math.imul(two ^ byte, FACTOR_TWO)
      two ^= two >>> 15
      if (byte !== END) continue
      this.#isSecondField = !this.#isSecondField
      if (this.#isSecondField) continue
      this.#records += 1
      this.#sumOne = (this.#sumOne + mix(one)) | 0
      this.#sumTwo = (this.#sumTwo + mix(two)) | 0
      one = SEED_ONE
      two = SEED_TWO
    }
    this.#one = one
    this.#two = two
  }
}

/** Every bit of the record has to show in every bit of what is added. */
function mix(hash: number): number {
  let mixed = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b)
  mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35)
  return mixed ^ (mixed >>> 16)
}
