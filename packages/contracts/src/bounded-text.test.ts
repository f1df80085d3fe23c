import { readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { BoundedText, boundText } from './bounded-text.ts'

/** A step that is a number is a gap of so many bytes. The Python twin passes the same table (tests/python-sdk). */
interface Case {
  readonly name: string
  readonly maxBytes: number
  readonly steps: readonly (string | number)[]
  readonly text: string
  readonly lostBytes: number
}

const CASES: readonly Case[] = JSON.parse(
  readFileSync(new URL('bounded-text.cases.json', import.meta.url), 'utf8'),
)

describe('BoundedText', () => {
  test.each(CASES)('$name', ({ maxBytes, steps, text, lostBytes }) => {
    const bounded = boundedOf(steps, maxBytes)
    expect(bounded.text()).toBe(text)
    expect(bounded.lostBytes).toBe(lostBytes)
    expect(bounded.text(), 'asked for a second time').toBe(text)
  })

  test('keeps both ends within the bound and counts the rest, for texts of any shape', () => {
    const random = randomNumbers(12)
    for (let round = 0; round < 2000; round++) {
      const pieces = Array.from({ length: random(12) }, () => pieceOf(random))
      const maxBytes = random(40)
      const bounded = boundedOf(pieces, maxBytes)
      const whole = pieces.join('')
      const { lostBytes } = bounded
      if (Buffer.byteLength(whole) <= maxBytes) {
        expect(bounded.text()).toBe(whole)
        continue
      }
      const [head = '', tail = '', ...more] = bounded.text().split(`\n… ${lostBytes} bytes left out …\n`)
      expect(more).toEqual([])
      expect(whole.startsWith(head)).toBe(true)
      expect(whole.endsWith(tail)).toBe(true)
      expect(bounded.text().isWellFormed()).toBe(true)
      const keptBytes = Buffer.byteLength(head) + Buffer.byteLength(tail)
      expect(keptBytes).toBeLessThanOrEqual(maxBytes)
      // A character of up to four bytes may not have fitted.
      expect(keptBytes).toBeGreaterThan(maxBytes - 4)
      expect(keptBytes + lostBytes).toBe(Buffer.byteLength(whole))
    }
  })

  test('says what to do about the missing bytes, with advice', () => {
    expect(boundText('abcdef', 4, 'print less')).toBe('ab\n… 2 bytes left out: print less …\nef')
  })

  test('gives the same text however it was split into pieces', () => {
    const random = randomNumbers(34)
    for (let round = 0; round < 500; round++) {
      const pieces = Array.from({ length: 8 }, () => pieceOf(random))
      const maxBytes = random(40)
      expect(boundedOf(pieces, maxBytes).text()).toBe(boundText(pieces.join(''), maxBytes))
    }
  })
})

function boundedOf(steps: readonly (string | number)[], maxBytes: number): BoundedText {
  const bounded = new BoundedText(maxBytes)
  for (const step of steps) {
    if (typeof step === 'number') bounded.lose(step)
    else bounded.add(step)
  }
  return bounded
}

function pieceOf(random: (below: number) => number): string {
  const alphabet = ['a', 'b', 'ä', '€', '🐭', '\0']
  return Array.from({ length: random(8) }, () => alphabet[random(alphabet.length)]).join('')
}

/** The same numbers in every test run, so that a failure can be repeated. */
function randomNumbers(seed: number): (below: number) => number {
  let state = seed
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return Math.floor((state / 2 ** 32) * below)
  }
}
