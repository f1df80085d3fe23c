import { describe, expect, it } from 'vitest'
import { CALL, findTimeout, parseBlockedCall } from './call-timeout.ts'

const AT = 0x7000n
const TWO_AND_A_HALF: readonly [bigint, bigint] = [2n, 500_000_000n]

/** `memory` is what the process has at `AT`. */
function timeoutOf(number: number, args: readonly bigint[], memory = TWO_AND_A_HALF) {
  const call = { number, args, stackPointer: 0n, instructionPointer: 0n }
  return findTimeout(call, (address) => (address === AT ? memory : undefined))
}

describe('parseBlockedCall', () => {
  it('reads number, arguments, stack pointer and instruction pointer', () => {
    expect(parseBlockedCall('230 0x0 0x1 0x2 0x3 0x4 0x5 0x7ffe 0x7f0a\n')).toEqual({
      number: 230,
      args: [0n, 1n, 2n, 3n, 4n, 5n],
      stackPointer: 0x7ffen,
      instructionPointer: 0x7f0an,
    })
  })

  it.each(['running\n', '-1 0x7ffe 0x7f0a\n', ''])('returns undefined for %j', (text) => {
    expect(parseBlockedCall(text)).toBeUndefined()
  })
})

describe('findTimeout', () => {
  const wait = { kind: 'for', ns: 2_500_000_000n }

  it.each([
    ['poll', CALL.poll, [0n, 0n, 2_500n]],
    ['epoll_wait', CALL.epollWait, [0n, 0n, 0n, 2_500n]],
    ['pselect6', CALL.pselect6, [0n, 0n, 0n, 0n, AT]],
    ['ppoll', CALL.ppoll, [0n, 0n, AT]],
    ['nanosleep', CALL.nanosleep, [AT]],
    ['a relative clock_nanosleep', CALL.clockNanosleep, [0n, 0n, AT]],
    ['FUTEX_WAIT', CALL.futex, [0n, 0x80n, 0n, AT]],
  ])('%s waits for its time-out', (_name, number, args) => {
    expect(timeoutOf(number, args)).toEqual(wait)
  })

  it('select has microseconds', () => {
    expect(timeoutOf(CALL.select, [0n, 0n, 0n, 0n, AT], [2n, 500_000n])).toEqual(wait)
  })

  it.each([
    ['an absolute clock_nanosleep', CALL.clockNanosleep, [1n, 1n, AT], 'monotonic'],
    ['one on the wall clock', CALL.clockNanosleep, [0n, 1n, AT], 'realtime'],
    ['FUTEX_WAIT_BITSET', CALL.futex, [0n, 0x89n, 0n, AT], 'monotonic'],
    ['FUTEX_WAIT_BITSET on the wall clock', CALL.futex, [0n, 0x189n, 0n, AT], 'realtime'],
  ])('%s waits until a time', (_name, number, args, clock) => {
    expect(timeoutOf(number, args)).toEqual({ kind: 'until', clock, ns: 2_500_000_000n })
  })

  it.each([
    ['poll for ever', CALL.poll, [0n, 0n, 0xffff_ffffn]],
    ['epoll_wait for ever', CALL.epollWait, [0n, 0n, 0n, 0xffff_ffff_ffff_ffffn]],
    ['poll without waiting', CALL.poll, [0n, 0n, 0n]],
    ['futex for ever', CALL.futex, [0n, 0x80n, 0n, 0n]],
    ['FUTEX_WAKE, which does not wait', CALL.futex, [0n, 1n, 0n, AT]],
    ['an address without memory', CALL.nanosleep, [0x10n]],
    ['a sleep on CPU time', CALL.clockNanosleep, [2n, 1n, AT]],
    ['a call that is not known', 0, [AT, AT, AT, AT, AT, AT]],
  ])('%s has none', (_name, number, args) => {
    expect(timeoutOf(number, args)).toBeUndefined()
  })

  it.each([
    { memory: [-1n, 0n] as const },
    { memory: [1n, 1_000_000_000n] as const },
    { memory: [1n, -1n] as const },
  ])('a time that the kernel would refuse is none', ({ memory }) => {
    expect(timeoutOf(CALL.nanosleep, [AT], memory)).toBeUndefined()
  })
})
