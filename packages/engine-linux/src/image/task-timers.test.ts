import { WireType } from '@bufbuild/protobuf/wire'
import { describe, expect, it } from 'vitest'
import { encodeMessage, type Message } from './message.ts'
import { sleepUntil } from './sleeping-threads.ts'
import { passTimeOfTask, taskTimersOf } from './task-timers.ts'

const uint = (no: number, value: number | bigint): Message[number] => ({
  no,
  type: WireType.Varint,
  value: BigInt(value),
})
const inner = (no: number, message: Message): Message[number] => ({
  no,
  type: WireType.LengthDelimited,
  value: encodeMessage(message),
})

/** Interval and value, each in seconds and microseconds. */
const itimer = (no: number, values: readonly [number, number, number, number]) =>
  inner(
    no,
    values.map((value, index) => uint(index + 1, value)),
  )

function core({
  real,
  clock = 1,
  left,
}: {
  real: [number, number, number, number]
  clock?: number
  left: number
}) {
  const posix = [uint(1, 0), uint(2, clock), ...[0, 0, 0, 0].map((value, index) => uint(3 + index, value))]
  const times = [0, 0, left, 5].map((value, index) => uint(7 + index, value))
  const timers = [
    itimer(1, real),
    itimer(2, [0, 0, 9, 9]),
    itimer(3, [0, 0, 9, 9]),
    inner(4, [...posix, ...times]),
  ]
  return [uint(1, 1), inner(3, [uint(1, 1), inner(7, timers)])]
}

const NS_PER_S = 1_000_000_000n

describe('timers of a task', () => {
  it('are those of setitimer and timer_settime; timers of CPU time do not count', () => {
    const image = core({ real: [2, 0, 7, 250_000], left: 3 })
    expect(taskTimersOf(image)).toEqual([
      { leftNs: 7n * NS_PER_S + 250_000_000n, intervalNs: 2n * NS_PER_S },
      { leftNs: 3n * NS_PER_S + 5n, intervalNs: 0n },
    ])
    expect(taskTimersOf(core({ real: [0, 0, 0, 0], clock: 2, left: 3 }))).toEqual([])
  })

  it('lose the time that has passed, and expire at once when it was more than they had left', () => {
    const image = core({ real: [2, 0, 7, 250_000], left: 3 })
    expect(passTimeOfTask(image, 5n * NS_PER_S)).toBe(true)
    expect(taskTimersOf(image)).toEqual([
      { leftNs: 2n * NS_PER_S + 250_000_000n, intervalNs: 2n * NS_PER_S },
      { leftNs: 1n, intervalNs: 0n },
    ])
  })

  it('that are not set stay so', () => {
    const image = core({ real: [0, 0, 0, 0], clock: 2, left: 3 })
    const copy = structuredClone(image)
    expect(passTimeOfTask(image, 5n * NS_PER_S)).toBe(false)
    expect(image).toEqual(copy)
  })
})

describe('sleepUntil', () => {
  const thread = (ax: bigint): Message => [
    uint(1, 1),
    inner(2, [
      uint(1, 0),
      inner(
        2,
        Array.from({ length: 27 }, (_, index) => uint(index + 1, index + 1 === 11 ? ax : (index + 1) * 1000)),
      ),
    ]),
  ]

  it('repeats an interrupted call with an absolute time', () => {
    const image = thread(BigInt.asUintN(64, -4n))
    expect(sleepUntil(image, 0x7ff0n)).toBe(true)
    const changed = new Map([
      [11, 230n],
      [13, 0x7ff0n],
      [14, 1n],
      [15, 1n],
      [17, 16_998n],
    ])
    const registers = Array.from({ length: 27 }, (_, index) =>
      uint(index + 1, changed.get(index + 1) ?? (index + 1) * 1000),
    )
    expect(image).toEqual([uint(1, 1), inner(2, [uint(1, 0), inner(2, registers)])])
  })

  it('leaves a thread that is not in an interrupted call', () => {
    const image = thread(230n)
    const copy = structuredClone(image)
    expect(sleepUntil(image, 0x7ff0n)).toBe(false)
    expect(image).toEqual(copy)
  })
})
