import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { ConnectionSlots } from './connection-slots.ts'

/** A pool, and how many connections each sandbox has. */
function open(max: number, maxPerSandbox: number) {
  const pool = new ConnectionSlots({ max, maxPerSandbox })
  const held = new Map<string, (() => void)[]>()
  const of = (sandboxId: string) => held.get(sandboxId) ?? []
  const enter = (owner: string, sandboxId: string): string | undefined => {
    const place = pool.enter({ owner, sandboxId }, () => {
      const left = of(sandboxId).filter((one) => one !== place)
      held.set(sandboxId, left)
    })
    if (typeof place === 'string') return place
    held.set(sandboxId, [...of(sandboxId), place])
    return undefined
  }
  const leave = (sandboxId: string) => of(sandboxId).pop()?.()
  return { enter, leave, count: (sandboxId: string) => of(sandboxId).length }
}

describe('the pool of connections', () => {
  test('is there for one key alone, up to the bound of each sandbox', () => {
    const pool = open(40, 10)
    for (let at = 0; at < 40; at++) expect(pool.enter('a', `a${at % 4}`)).toBeUndefined()
    expect(pool.enter('a', 'a0')).toBe('too many connections of this sandbox')
    expect(pool.enter('a', 'a4')).toBeUndefined()
    expect(pool.count('a0') + pool.count('a1') + pool.count('a2') + pool.count('a3')).toBe(39)
  })

  test('gives another key its half, whatever the first one does about it', () => {
    const pool = open(40, 40)
    for (let at = 0; at < 40; at++) pool.enter('greedy', 'g')
    for (let at = 0; at < 25; at++) {
      pool.enter('other', 'o')
      pool.enter('greedy', 'g')
    }
    expect([pool.count('o'), pool.count('g')]).toEqual([20, 20])
    expect(pool.enter('greedy', 'g')).toBe('too many connections of all sandboxes')
  })

  test('gives every one of many keys its part, and every sandbox of a key', () => {
    const pool = open(60, 60)
    for (let at = 0; at < 60; at++) pool.enter('k0', 'k0')
    for (let key = 1; key < 6; key++) for (let at = 0; at < 60; at++) pool.enter(`k${key}`, `k${key}`)
    for (let key = 0; key < 6; key++) expect(pool.count(`k${key}`)).toBe(10)
    for (let at = 0; at < 60; at++) pool.enter('k0', 'k0-quiet')
    expect([pool.count('k0'), pool.count('k0-quiet')]).toEqual([5, 5])
  })

  test('counts right whatever happens: never more than there are, and none is lost', () => {
    const step = fc.tuple(fc.nat(2), fc.nat(3), fc.nat(2))
    fc.assert(
      fc.property(fc.array(step, { maxLength: 300 }), (steps) => {
        const pool = open(12, 6)
        const names = [0, 1, 2, 3].flatMap((key) => [0, 1, 2].map((at) => `${key}-${at}`))
        const total = () => names.reduce((sum, name) => sum + pool.count(name), 0)
        for (const [what, key, at] of steps) {
          if (what === 0) pool.leave(`${key}-${at}`)
          else pool.enter(`${key}`, `${key}-${at}`)
          expect(total()).toBeLessThanOrEqual(12)
        }
        for (const name of names) while (pool.count(name) > 0) pool.leave(name)
        for (let at = 0; at < 12; at++) expect(pool.enter('x', `x${at % 2}`)).toBeUndefined()
      }),
    )
  })
})
