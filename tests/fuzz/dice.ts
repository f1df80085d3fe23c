/** Random choices that are the same for the same seed. */
export class Dice {
  #state: number

  constructor(seed: number) {
    this.#state = seed >>> 0
  }

  /** A whole number from 0 up to and without `below`. Mulberry32. */
  number(below: number): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0
    let mixed = this.#state
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return Math.floor((((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32) * below)
  }

  chance(percent: number): boolean {
    return this.number(100) < percent
  }

  one<Item>(items: readonly Item[]): Item {
    return items[this.number(items.length)] as Item
  }

  bytes(length: number): Buffer {
    return Buffer.from(Array.from({ length }, () => this.number(256)))
  }
}

const SEED = Number(process.env['FUZZ_SEED'] ?? 20_261_116)
const SECONDS = Number(process.env['FUZZ_SECONDS'] ?? 4)

/** Far beyond what a suite needs; a long run says so itself. */
export const FUZZ_TIMEOUT_MS = SECONDS * 1000 + 120_000

/**
 * Plays one case after the other until the time is over. A case that throws is named with the seed that brings it back:
 * `FUZZ_SEED=<that> FUZZ_SECONDS=0` plays it alone, `FUZZ_SECONDS=3600` plays for an hour.
 */
export async function fuzz(play: (dice: Dice) => Promise<void>): Promise<number> {
  const end = Date.now() + SECONDS * 1000
  let cases = 0
  do {
    const seed = SEED + cases
    try {
      await play(new Dice(seed))
    } catch (cause) {
      throw new Error(`FUZZ_SEED=${seed} FUZZ_SECONDS=0 brings this back: ${(cause as Error).message}`, {
        cause,
      })
    }
    cases++
  } while (Date.now() < end)
  console.log(`${cases} cases from FUZZ_SEED=${SEED}`)
  return cases
}
