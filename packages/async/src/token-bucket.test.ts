import { describe, expect, it } from 'vitest'
import { TokenBucket } from './token-bucket.ts'

function bucket(perSecond: number, burst: number) {
  let now = 1_000
  const it = new TokenBucket({ perSecond, burst }, () => now)
  return { take: () => it.take(), pass: (ms: number) => (now += ms) }
}

describe('TokenBucket', () => {
  it('gives a burst at once, then says how long the next one takes', () => {
    const { take } = bucket(10, 3)
    expect([take(), take(), take(), take()]).toEqual([0, 0, 0, 100])
  })

  it('has a token exactly after the time that it named', () => {
    const { take, pass } = bucket(4, 1)
    take()
    pass(249)
    expect(take()).toBe(1)
    pass(1)
    expect(take()).toBe(0)
    expect(take()).toBe(250)
  })

  it('does not fill beyond the burst, however long the pause', () => {
    const { take, pass } = bucket(100, 2)
    pass(3_600_000)
    expect([take(), take(), take()]).toEqual([0, 0, 10])
  })

  it('regains tokens in proportion to the time that passed', () => {
    const { take, pass } = bucket(10, 10)
    const takeAll = () => Array.from({ length: 50 }, take).filter((waitMs) => waitMs === 0).length
    expect(takeAll()).toBe(10)
    pass(500)
    expect(takeAll()).toBe(5)
    pass(60_000)
    expect(takeAll()).toBe(10)
  })

  it('does not punish for asking too often', () => {
    const { take, pass } = bucket(1, 1)
    take()
    for (let n = 0; n < 50; n++) {
      take()
      pass(20)
    }
    expect(take()).toBe(0)
  })

  it('lets the long-run rate through and no more', () => {
    const { take, pass } = bucket(7, 5)
    let admitted = 0
    for (let ms = 0; ms < 60_000; ms += 10) {
      if (take() === 0) admitted++
      pass(10)
    }
    expect(admitted).toBeGreaterThanOrEqual(7 * 60 + 4)
    expect(admitted).toBeLessThanOrEqual(7 * 60 + 5)
  })

  it('always has its burst after a pause, at any rate and any time', () => {
    for (let perSecond = 0.3; perSecond < 2000; perSecond *= 1.37) {
      let now = 123_456.789 * perSecond
      const full = new TokenBucket({ perSecond, burst: 3 }, () => now)
      for (let round = 0; round < 50; round++) {
        expect([full.take(), full.take(), full.take()]).toEqual([0, 0, 0])
        expect(full.take()).toBeGreaterThan(0)
        now += 3000 / perSecond + 0.01
      }
    }
  })

  it('handles rates below one per second', () => {
    const { take, pass } = bucket(0.1, 1)
    take()
    expect(take()).toBe(10_000)
    pass(10_000)
    expect(take()).toBe(0)
  })
})
