import { WireType } from '@bufbuild/protobuf/wire'
import { describe, expect, it } from 'vitest'
import type { Message } from './message.ts'
import { mendTimer } from './timers.ts'

/** flags, seconds and nanoseconds left, seconds and nanoseconds of the interval */
function timer(...values: readonly [number, number, number, number, number]): Message {
  return values.map((value, index) => ({ no: 6 + index, type: WireType.Varint, value: BigInt(value) }))
}

describe('mendTimer', () => {
  it.each([
    { what: 'a periodic timer that is due', before: timer(0, 0, 0, 1, 0), after: timer(0, 0, 1, 1, 0) },
    { what: 'a timer set to an absolute time', before: timer(1, 3, 5, 0, 0), after: timer(0, 3, 5, 0, 0) },
    {
      what: 'a periodic one of those that is due',
      before: timer(1, 0, 0, 0, 9),
      after: timer(0, 0, 1, 0, 9),
    },
  ])('$what goes off in time', ({ before, after }) => {
    mendTimer(before)
    expect(before).toEqual(after)
  })

  it.each([
    { what: 'disarmed', before: timer(0, 0, 0, 0, 0) },
    { what: 'with time left', before: timer(0, 0, 7, 0, 0) },
    { what: 'periodic with time left', before: timer(0, 1, 7, 2, 0) },
    { what: 'cancelled when the clock is set', before: timer(3, 1, 7, 0, 0) },
  ])('a timer that is $what stays as it is', ({ before }) => {
    const copy = structuredClone(before)
    mendTimer(before)
    expect(before).toEqual(copy)
  })
})
