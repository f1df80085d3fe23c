import type { RunEvent } from '@dormouse/contracts'
import { describe, expect, test } from 'vitest'
import { boundEvent, entryOf, unseenPart } from './bound-event.ts'
import { MARK_TEXT_MAX_CHARACTERS } from './limits.ts'
import { RunTail } from './run-tail.ts'

const output = (seq: number, length = 100): RunEvent => ({ seq, type: 'stdout', data: 'x'.repeat(length) })

function tailOf(maxBytes: number, ...events: RunEvent[]): RunTail {
  const tail = new RunTail(4, maxBytes)
  for (const event of events) tail.push(entryOf(event))
  return tail
}

describe('RunTail', () => {
  test('holds everything while it fits, and a reader gets what comes behind its place', () => {
    const tail = tailOf(10_000, output(5), output(6), output(7))
    expect(tail.after(4).map(({ seq }) => seq)).toEqual([5, 6, 7])
    expect(tail.after(6).map(({ seq }) => seq)).toEqual([7])
    expect(tail.after(7)).toEqual([])
  })

  test('drops the oldest first, and one mark stands for all that is gone', () => {
    const tail = tailOf(400, ...[5, 6, 7, 8, 9].map((seq) => output(seq)))
    expect(tail.all()).toMatchObject([
      { seq: 7, type: 'truncated', events: 3, bytes: 420 },
      { seq: 8, type: 'stdout' },
      { seq: 9, type: 'stdout' },
    ])
    expect(tail.droppedSeq).toBe(7)
  })

  test('takes what its source has left out into its own mark', () => {
    const tail = tailOf(400, output(5), { seq: 99, type: 'truncated', events: 94, bytes: 5_000 }, output(100))
    tail.push(entryOf(output(101)))
    tail.push(entryOf(output(102)))
    expect(tail.all()[0]).toEqual({ seq: 100, type: 'truncated', events: 96, bytes: 5_280 })
  })

  test('keeps the newest also when it alone is too long', () => {
    const tail = tailOf(400, output(5), output(6, 5_000))
    expect(tail.all().map(({ type }) => type)).toEqual(['truncated', 'stdout'])
  })

  test('hands out pieces that a reader can handle', () => {
    const events = Array.from({ length: 40 }, (_, index) => output(index + 5, 60_000))
    const tail = tailOf(10_000_000, ...events)
    const page = tail.after(4)
    expect(page.length).toBeLessThan(10)
    expect(tail.after(page.at(-1)?.seq as number)[0]?.seq).toBe((page.at(-1)?.seq as number) + 1)
  })
})

describe('what an agent in hostile hands says', () => {
  test('has no fields but those of its type, and what is always kept is short', () => {
    const long = 'x'.repeat(1_000_000)
    const exit = { seq: 1, type: 'exit', exitCode: 0, durationMs: 1, signal: long, more: long } as RunEvent
    expect(boundEvent(exit)).toEqual({
      ...{ seq: 1, type: 'exit', exitCode: 0, durationMs: 1 },
      signal: 'x'.repeat(MARK_TEXT_MAX_CHARACTERS),
    })
    const start = { seq: 0, type: 'start', runId: long, context: [long], contextRestarted: long } as unknown
    expect(JSON.stringify(boundEvent(start as RunEvent)).length).toBeLessThan(4 * MARK_TEXT_MAX_CHARACTERS)
    const said = { ...output(2), more: long } as RunEvent
    expect(boundEvent(said)).toEqual(output(2))
  })
})

test('a reader that has seen some of the missing events learns how many others are missing', () => {
  const mark: RunEvent = { seq: 9, type: 'truncated', events: 5, bytes: 500 }
  expect(unseenPart(mark, 4)).toEqual(mark)
  expect(unseenPart(mark, 7)).toEqual({ seq: 9, type: 'truncated', events: 2, bytes: 200 })
  expect(unseenPart(output(9), 7)).toEqual(output(9))
})
