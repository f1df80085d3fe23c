import { DormouseError } from '@dormouse/contracts'
import { describe, expect, it } from 'vitest'
import { StartLimiter, type StartLimits } from './start-limiter.ts'

const room = { freeMemoryBytes: async () => 1_000, freeDiskBytes: async () => 1_000 }

function admission(limits: Partial<StartLimits> = {}): StartLimiter {
  const usual = { restoresAtOnce: 1, queueLength: 100, queueMs: 60_000, minFreeMemoryBytes: 0 }
  return new StartLimiter({ ...usual, minFreeDiskBytes: 0, ...limits }, room)
}

/** Restores that end when the test says so, and the order in which they began. */
function restores(gate: StartLimiter) {
  const begun: string[] = []
  const ends = new Map<string, () => void>()
  const body = (name: string) => () =>
    new Promise<string>((resolve) => {
      begun.push(name)
      ends.set(name, () => resolve(name))
    })
  return {
    begun,
    run: (owner: string, name: string, signal?: AbortSignal) => gate.run(owner, body(name), signal),
    runUrgent: (name: string) => gate.runUrgent(body(name)),
    end: async (name: string) => {
      ends.get(name)?.()
      await settled()
    },
  }
}

const settled = () => new Promise((resolve) => setImmediate(resolve))
const refused = (reason: string) =>
  expect.objectContaining({ code: 'overloaded', details: expect.objectContaining({ reason }) })

describe('StartLimiter', () => {
  it('lets so many in at once, and the next when one is out, also by an error', async () => {
    const gate = admission({ restoresAtOnce: 2 })
    const { run, begun, end } = restores(gate)
    const failing = gate.run('a', async () => {
      await settled()
      throw new DormouseError('restore_failed', 'no')
    })
    const all = ['1', '2', '3'].map((name) => run('a', name))
    await expect(failing).rejects.toMatchObject({ code: 'restore_failed' })
    await settled()
    expect(begun).toEqual(['1', '2'])
    expect(gate.load).toEqual({ running: 2, waiting: 1 })
    await end('2')
    expect(begun).toEqual(['1', '2', '3'])
    for (const name of ['1', '3']) await end(name)
    expect(await Promise.all(all)).toEqual(['1', '2', '3'])
    expect(gate.load).toEqual({ running: 0, waiting: 0 })
  })

  it('owners take turns: one with many requests does not delay the others', async () => {
    const { run, begun, end } = restores(admission())
    const all = ['a1', 'a2', 'a3', 'a4', 'b1', 'c1', 'b2'].map((name) => run(name.slice(0, 1), name))
    await settled()
    for (const name of ['a1', 'a2', 'b1', 'c1', 'a3', 'b2', 'a4']) await end(name)
    expect(begun).toEqual(['a1', 'a2', 'b1', 'c1', 'a3', 'b2', 'a4'])
    await Promise.all(all)
  })

  it('refuses what comes when the queue is full, and takes more when there is room in it', async () => {
    const gate = admission({ queueLength: 2 })
    const { run, end } = restores(gate)
    const all = ['1', '2', '3'].map((name) => run('a', name))
    await settled()
    await expect(run('b', '4')).rejects.toEqual(refused('restores'))
    await end('1')
    all.push(run('b', '5'))
    for (const name of ['2', '3', '5']) await end(name)
    expect(await Promise.all(all)).toEqual(['1', '2', '3', '5'])
  })

  it('refuses what has waited too long, and does not start it later', async () => {
    const gate = admission({ queueMs: 30 })
    const { run, begun, end } = restores(gate)
    const first = run('a', '1')
    await expect(run('b', '2')).rejects.toMatchObject({
      code: 'overloaded',
      details: { retryAfterMs: expect.any(Number) },
    })
    await end('1')
    await first
    expect(begun).toEqual(['1'])
    expect(gate.load).toEqual({ running: 0, waiting: 0 })
  })

  it('a caller that gives up leaves the queue, also before it was in it', async () => {
    const gate = admission()
    const { run, begun, end } = restores(gate)
    const first = run('a', '1')
    const giveUp = new AbortController()
    const second = run('a', '2', giveUp.signal)
    await settled()
    giveUp.abort()
    await expect(second).rejects.toMatchObject({ code: 'cancelled' })
    await expect(run('a', '3', giveUp.signal)).rejects.toMatchObject({ code: 'cancelled' })
    await end('1')
    await first
    expect(begun).toEqual(['1'])
    expect(gate.load).toEqual({ running: 0, waiting: 0 })
  })

  it('a sandbox that continues comes first, shares the bound, and is refused neither by a full queue nor for lack of memory', async () => {
    const gate = admission({ queueLength: 1, queueMs: 20, minFreeMemoryBytes: 0 })
    const { run, runUrgent, begun, end } = restores(gate)
    const all = [run('a', '1')]
    await settled()
    const late = run('a', '2').catch((error: unknown) => error)
    all.push(runUrgent('on 1'), runUrgent('on 2'))
    await settled()
    expect(begun).toEqual(['1'])
    expect(gate.load).toEqual({ running: 1, waiting: 3 })
    expect(await late).toEqual(refused('restores'))
    for (const name of ['1', 'on 1', 'on 2']) await end(name)
    expect(await Promise.all(all)).toEqual(['1', 'on 1', 'on 2'])
    const poor = restores(admission({ minFreeMemoryBytes: 2_000 }))
    const going = poor.runUrgent('on')
    await poor.end('on')
    expect(await going).toBe('on')
  })

  it('refuses below a watermark, each for its own reason, and nothing has begun', async () => {
    const { run, begun } = restores(admission({ minFreeMemoryBytes: 1_001 }))
    await expect(run('a', '1')).rejects.toEqual(refused('memory'))
    expect(begun).toEqual([])
    await expect(admission({ minFreeDiskBytes: 1_001 }).requireDisk()).rejects.toEqual(refused('disk'))
    await admission({ minFreeDiskBytes: 1_000 }).requireDisk()
  })
})
