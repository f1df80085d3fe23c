import { describe, expect, it } from 'vitest'
import { Doorkeeper } from './doorkeeper.ts'
import {
  FAILURES_BURST,
  FAILURES_PER_SECOND,
  SOURCES_MAX,
  STRANGERS_MAX,
  STRANGERS_PER_SOURCE_MAX,
} from './limits.ts'

const fail = (doorkeeper: Doorkeeper, address: string, times: number) => {
  for (let n = 0; n < times; n += 1) doorkeeper.admit(address)?.leave()
}

describe('the doorkeeper', () => {
  it('lets so many stand at the door, in all and from one place, until they have proved who they are', () => {
    const doorkeeper = new Doorkeeper(() => 0)
    const standing = Array.from({ length: STRANGERS_PER_SOURCE_MAX }, () => doorkeeper.admit('10.0.0.1'))
    expect(standing.every((one) => one !== undefined)).toBe(true)
    expect(doorkeeper.admit('10.0.0.1')).toBeUndefined()
    expect(doorkeeper.admit('::ffff:10.0.0.1')).toBeUndefined()
    standing[0]?.pass()
    standing[0]?.leave()
    expect(doorkeeper.admit('10.0.0.1')).toBeDefined()
    for (let n = STRANGERS_PER_SOURCE_MAX; n < STRANGERS_MAX; n += 1) doorkeeper.admit(`10.0.1.${n}`)
    expect(doorkeeper.admit('10.0.2.1')).toBeUndefined()
  })

  it('sends away a place from which many have failed, for a while', () => {
    let now = 0
    const doorkeeper = new Doorkeeper(() => now)
    fail(doorkeeper, '10.0.0.1', FAILURES_BURST)
    expect(doorkeeper.admit('10.0.0.1')).toBeUndefined()
    expect(doorkeeper.admit('10.0.0.2')).toBeDefined()
    now += 1000 / FAILURES_PER_SECOND
    doorkeeper.admit('10.0.0.1')?.leave()
    expect(doorkeeper.admit('10.0.0.1')).toBeUndefined()
  })

  it('takes all addresses of one IPv6 network for one place', () => {
    const doorkeeper = new Doorkeeper(() => 0)
    for (let n = 0; n < FAILURES_BURST; n += 1) fail(doorkeeper, `2001:db8:1:2::${n.toString(16)}`, 1)
    expect(doorkeeper.admit('2001:db8:1:2:3:4:5:6')).toBeUndefined()
    expect(doorkeeper.admit('2001:db8:1:3::1')).toBeDefined()
    expect(doorkeeper.admit('::1')).toBeDefined()
  })

  it('remembers a bounded number of places', () => {
    const doorkeeper = new Doorkeeper(() => 0)
    fail(doorkeeper, 'first', FAILURES_BURST)
    for (let n = 0; n < SOURCES_MAX; n += 1) fail(doorkeeper, `place ${n}`, 1)
    expect(doorkeeper.admit('first')).toBeDefined()
  })
})
