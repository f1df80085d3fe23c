import { readFileSync } from 'node:fs'
import { BoundedText as BoundedTextOfContracts } from '@dormouse/contracts'
import { describe, expect, test } from 'vitest'
import { BoundedText } from './bounded-text.ts'

interface Case {
  readonly name: string
  readonly maxBytes: number
  readonly steps: readonly (string | number)[]
  readonly text: string
  readonly lostBytes: number
}

const CASES: readonly Case[] = JSON.parse(
  readFileSync(new URL('../../../contracts/src/bounded-text.cases.json', import.meta.url), 'utf8'),
)

describe('BoundedText of the SDK', () => {
  test.each(CASES)('$name', ({ maxBytes, steps, text, lostBytes }) => {
    const bounded = fill(new BoundedText(maxBytes), steps)
    expect(bounded.text()).toBe(text)
    expect(bounded.lostBytes).toBe(lostBytes)
    expect(bounded.text(), 'asked for a second time').toBe(text)
  })

  test('gives the same text as that of the contracts, for every bound', () => {
    const steps = ['\ufeffab', 'ä€', '🐭', '', 'long '.repeat(9), 7, '€'.repeat(11), 'z']
    for (let maxBytes = 0; maxBytes < 120; maxBytes++) {
      const [ours, theirs] = [new BoundedText(maxBytes), new BoundedTextOfContracts(maxBytes)]
      expect(fill(ours, steps).text(), `${maxBytes} bytes`).toBe(fill(theirs, steps).text())
    }
  })
})

function fill<Bounded extends { add(text: string): void; lose(bytes: number): void }>(
  bounded: Bounded,
  steps: readonly (string | number)[],
): Bounded {
  for (const step of steps) {
    if (typeof step === 'number') bounded.lose(step)
    else bounded.add(step)
  }
  return bounded
}
