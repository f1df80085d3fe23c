import { describe, expect, it } from 'vitest'
import {
  FAILURES_BURST,
  FAILURES_PER_SECOND,
  SOURCES_MAX,
  UNAUTHENTICATED_MAX,
  UNAUTHENTICATED_PER_SOURCE_MAX,
} from './limits.ts'
import { LoginLimiter } from './login-limiter.ts'

const fail = (limiter: LoginLimiter, address: string, times: number) => {
  for (let n = 0; n < times; n += 1) limiter.start(address)?.end()
}

describe('the login limiter', () => {
  it('bounds connections that have not logged in, in all and from one address', () => {
    const limiter = new LoginLimiter(() => 0)
    const standing = Array.from({ length: UNAUTHENTICATED_PER_SOURCE_MAX }, () => limiter.start('10.0.0.1'))
    expect(standing.every((one) => one !== undefined)).toBe(true)
    expect(limiter.start('10.0.0.1')).toBeUndefined()
    expect(limiter.start('::ffff:10.0.0.1')).toBeUndefined()
    standing[0]?.succeed()
    standing[0]?.end()
    expect(limiter.start('10.0.0.1')).toBeDefined()
    for (let n = UNAUTHENTICATED_PER_SOURCE_MAX; n < UNAUTHENTICATED_MAX; n += 1) limiter.start(`10.0.1.${n}`)
    expect(limiter.start('10.0.2.1')).toBeUndefined()
  })

  it('sends away a place from which many have failed, for a while', () => {
    let now = 0
    const limiter = new LoginLimiter(() => now)
    fail(limiter, '10.0.0.1', FAILURES_BURST)
    expect(limiter.start('10.0.0.1')).toBeUndefined()
    expect(limiter.start('10.0.0.2')).toBeDefined()
    now += 1000 / FAILURES_PER_SECOND
    limiter.start('10.0.0.1')?.end()
    expect(limiter.start('10.0.0.1')).toBeUndefined()
  })

  it('takes all addresses of one IPv6 network for one place', () => {
    const limiter = new LoginLimiter(() => 0)
    for (let n = 0; n < FAILURES_BURST; n += 1) fail(limiter, `2001:db8:1:2::${n.toString(16)}`, 1)
    expect(limiter.start('2001:db8:1:2:3:4:5:6')).toBeUndefined()
    expect(limiter.start('2001:db8:1:3::1')).toBeDefined()
    expect(limiter.start('::1')).toBeDefined()
  })

  it('remembers a bounded number of places', () => {
    const limiter = new LoginLimiter(() => 0)
    fail(limiter, 'first', FAILURES_BURST)
    for (let n = 0; n < SOURCES_MAX; n += 1) fail(limiter, `place ${n}`, 1)
    expect(limiter.start('first')).toBeDefined()
  })
})
