import { setImmediate as tick } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import { Turns } from './turns.ts'

describe('turns', () => {
  test('calls share, a change waits for them, and calls behind it wait for the change', async () => {
    const turns = new Turns()
    const seen: string[] = []
    const first = await turns.shared()
    const second = await turns.shared()
    const change = turns.exclusive(async () => {
      seen.push('change begins')
      await tick()
      seen.push('change ends')
    })
    const third = Promise.resolve(turns.shared()).then((turn) => {
      seen.push('third')
      turn.release()
    })
    await tick()
    expect(seen).toEqual([])
    first.release()
    first.release()
    await tick()
    expect(seen).toEqual([])
    second.release()
    await Promise.all([change, third])
    expect(seen).toEqual(['change begins', 'change ends', 'third'])
    expect(turns.isFree).toBe(true)
  })

  test('a change that fails gives its turn back', async () => {
    const turns = new Turns()
    await expect(turns.exclusive(() => Promise.reject(new Error('no')))).rejects.toThrow('no')
    expect(turns.isFree).toBe(true)
  })

  test('whoever gives up leaves the queue, and those behind go on', async () => {
    const turns = new Turns()
    const shared = await turns.shared()
    const giveUp = new AbortController()
    const change = turns.exclusive(async () => 'never', giveUp.signal)
    const behind = Promise.resolve(turns.shared())
    giveUp.abort()
    await expect(change).rejects.toMatchObject({ code: 'cancelled' })
    const turn = await behind
    turn.release()
    shared.release()
    expect(turns.isFree).toBe(true)
  })
})
