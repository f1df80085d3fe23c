import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { ConnectionSlots } from './connection-slots.ts'

/** Connection slots, and how many connections each sandbox has. */
function open(max: number, maxPerSandbox: number) {
  const slots = new ConnectionSlots({ max, maxPerSandbox })
  const held = new Map<string, (() => void)[]>()
  const of = (sandboxId: string) => held.get(sandboxId) ?? []
  const take = (owner: string, sandboxId: string): string | undefined => {
    const release = slots.take({ owner, sandboxId }, () => {
      const left = of(sandboxId).filter((one) => one !== release)
      held.set(sandboxId, left)
    })
    if (typeof release === 'string') return release
    held.set(sandboxId, [...of(sandboxId), release])
    return undefined
  }
  const release = (sandboxId: string) => of(sandboxId).pop()?.()
  return { take, release, count: (sandboxId: string) => of(sandboxId).length }
}

describe('connection slots', () => {
  test('are there for one key alone, up to the bound of each sandbox', () => {
    const slots = open(40, 10)
    for (let at = 0; at < 40; at++) expect(slots.take('a', `a${at % 4}`)).toBeUndefined()
    expect(slots.take('a', 'a0')).toBe('too many connections of this sandbox')
    expect(slots.take('a', 'a4')).toBeUndefined()
    expect(slots.count('a0') + slots.count('a1') + slots.count('a2') + slots.count('a3')).toBe(39)
  })

  test('gives another key its half, whatever the first one does about it', () => {
    const slots = open(40, 40)
    for (let at = 0; at < 40; at++) slots.take('greedy', 'g')
    for (let at = 0; at < 25; at++) {
      slots.take('other', 'o')
      slots.take('greedy', 'g')
    }
    expect([slots.count('o'), slots.count('g')]).toEqual([20, 20])
    expect(slots.take('greedy', 'g')).toBe('too many connections of all sandboxes')
  })

  test('gives every one of many keys its part, and every sandbox of a key', () => {
    const slots = open(60, 60)
    for (let at = 0; at < 60; at++) slots.take('k0', 'k0')
    for (let key = 1; key < 6; key++) for (let at = 0; at < 60; at++) slots.take(`k${key}`, `k${key}`)
    for (let key = 0; key < 6; key++) expect(slots.count(`k${key}`)).toBe(10)
    for (let at = 0; at < 60; at++) slots.take('k0', 'k0-quiet')
    expect([slots.count('k0'), slots.count('k0-quiet')]).toEqual([5, 5])
  })

  test('counts right whatever happens: never more than there are, and none is lost', () => {
    const step = fc.tuple(fc.nat(2), fc.nat(3), fc.nat(2))
    fc.assert(
      fc.property(fc.array(step, { maxLength: 300 }), (steps) => {
        const slots = open(12, 6)
        const names = [0, 1, 2, 3].flatMap((key) => [0, 1, 2].map((at) => `${key}-${at}`))
        const total = () => names.reduce((sum, name) => sum + slots.count(name), 0)
        for (const [what, key, at] of steps) {
          if (what === 0) slots.release(`${key}-${at}`)
          else slots.take(`${key}`, `${key}-${at}`)
          expect(total()).toBeLessThanOrEqual(12)
        }
        for (const name of names) while (slots.count(name) > 0) slots.release(name)
        for (let at = 0; at < 12; at++) expect(slots.take('x', `x${at % 2}`)).toBeUndefined()
      }),
    )
  })
})
