import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, test, vi } from 'vitest'
import {
  abortable,
  KeyedMutex,
  Limiter,
  Mutex,
  onAbort,
  ReadWriteLock,
  retryUntilDone,
  settleAll,
  settledWithin,
  untilOneFails,
  withTimeout,
} from './index.ts'

const never = new Promise<never>(() => {})

function gate() {
  let open = () => {}
  const promise = new Promise<void>((resolve) => {
    open = resolve
  })
  return { promise, open }
}

describe('abort', () => {
  test('onAbort calls at once when the signal has already aborted, and not after it was disposed', () => {
    const listener = vi.fn()
    onAbort(AbortSignal.abort(), listener)
    expect(listener).toHaveBeenCalledTimes(1)
    const controller = new AbortController()
    onAbort(controller.signal, listener)[Symbol.dispose]()
    controller.abort()
    expect(listener).toHaveBeenCalledTimes(1)
  })

  test('abortable rejects with the reason of its signal, or with the error that was asked for', async () => {
    await expect(abortable(never, AbortSignal.abort(new Error('gone')))).rejects.toThrow('gone')
    await expect(abortable(never, AbortSignal.abort(), () => new Error('mine'))).rejects.toThrow('mine')
    await expect(abortable(Promise.resolve(1), undefined)).resolves.toBe(1)
    await expect(
      abortable(Promise.reject(new Error('failed')), new AbortController().signal),
    ).rejects.toThrow('failed')
  })
})

describe('time-outs', () => {
  test('withTimeout rejects what takes too long, and passes on what does not', async () => {
    await expect(withTimeout(never, 1, () => new Error('late'))).rejects.toThrow('late')
    await expect(withTimeout(Promise.resolve(1), 1_000, () => new Error('late'))).resolves.toBe(1)
  })

  test('settledWithin says whether work settled, whatever its outcome', async () => {
    expect(await settledWithin(never, 1)).toBe(false)
    expect(await settledWithin(Promise.reject(new Error('failed')), 1_000)).toBe(true)
  })
})

test('untilOneFails starts no job after one has failed, and gives all the same reason', async () => {
  const started: number[] = []
  const failure = new Error('failed')
  const job = untilOneFails(async (number: number) => {
    started.push(number)
    if (number === 2) throw failure
  })
  const results = await settleAll(
    [1, 2, 3, 4].map((number) => () => job(number)),
    1,
  )
  expect(started).toEqual([1, 2])
  expect(results.map((result) => result.status === 'rejected' && result.reason)).toEqual([
    false,
    failure,
    failure,
    failure,
  ])
})

describe('Limiter', () => {
  test('runs no more than its concurrency, and hands places on in order', async () => {
    const limiter = new Limiter({ concurrency: 2 })
    const order: number[] = []
    let most = 0
    const jobs = [0, 1, 2, 3, 4].map((id) =>
      limiter.run(async () => {
        most = Math.max(most, limiter.running)
        await sleep(1)
        order.push(id)
      }),
    )
    await Promise.all(jobs)
    expect([most, order, limiter.running, limiter.waiting]).toEqual([2, [0, 1, 2, 3, 4], 0, 0])
  })

  test('keys take turns, and urgent work goes ahead of all of them', async () => {
    const limiter = new Limiter({ concurrency: 1 })
    const { promise, open } = gate()
    const order: string[] = []
    const first = limiter.run(() => promise)
    const run = (id: string, options: object) => limiter.run(() => void order.push(id), options)
    const rest = [
      ...['a1', 'a2', 'a3'].map((id) => run(id, { key: 'a' })),
      run('b1', { key: 'b' }),
      run('u', { isUrgent: true }),
    ]
    open()
    await Promise.all([first, ...rest])
    expect(order).toEqual(['u', 'a1', 'b1', 'a2', 'a3'])
  })

  test('refuses what finds the queue full, waits too long or is aborted, and starts none of it', async () => {
    const refuse = (refusal: string) => new Error(refusal)
    const limiter = new Limiter({ concurrency: 1, maxQueued: 1, maxWaitMs: 20, refuse })
    const { promise, open } = gate()
    const first = limiter.run(() => promise)
    const work = vi.fn()
    const controller = new AbortController()
    const aborted = limiter.run(work, { signal: controller.signal })
    await expect(limiter.run(work)).rejects.toThrow('queue_full')
    controller.abort()
    await expect(aborted).rejects.toThrow('aborted')
    await expect(limiter.run(work)).rejects.toThrow('timeout')
    open()
    await first
    expect(work).not.toHaveBeenCalled()
    await expect(limiter.run(() => 7)).resolves.toBe(7)
  })

  test('a failure gives its place back', async () => {
    const mutex = new Mutex()
    await expect(mutex.run(() => Promise.reject(new Error('failed')))).rejects.toThrow('failed')
    expect(mutex.isLocked).toBe(false)
    await expect(mutex.run(() => 1)).resolves.toBe(1)
  })
})

describe('KeyedMutex', () => {
  test('runs work of one key in order, and work of other keys beside it', async () => {
    const mutex = new KeyedMutex()
    const { promise, open } = gate()
    const order: string[] = []
    const first = mutex.run('a', async () => {
      await promise
      order.push('a1')
    })
    const second = mutex.run('a', () => void order.push('a2'))
    await mutex.run('b', () => void order.push('b'))
    await expect(mutex.run('b', () => Promise.reject(new Error('failed')))).rejects.toThrow('failed')
    open()
    await Promise.all([first, second])
    expect(order).toEqual(['b', 'a1', 'a2'])
  })
})

describe('ReadWriteLock', () => {
  test('readers share, a writer is alone, and both are served in order', async () => {
    const lock = new ReadWriteLock()
    const order: string[] = []
    const one = await lock.read()
    const two = lock.read()
    expect(two).not.toBeInstanceOf(Promise)
    const writing = lock.write(async () => void order.push('writer'))
    const late = Promise.resolve(lock.read()).then((held) => {
      order.push('late reader')
      held.release()
    })
    expect(lock.isWriting).toBe(true)
    one.release()
    one.release()
    await sleep(1)
    expect(order).toEqual([])
    ;(await two).release()
    await Promise.all([writing, late])
    expect([order, lock.isFree]).toEqual([['writer', 'late reader'], true])
  })

  test('a writer that fails releases the lock', async () => {
    const lock = new ReadWriteLock()
    await expect(lock.write(() => Promise.reject(new Error('failed')))).rejects.toThrow('failed')
    expect(lock.isFree).toBe(true)
  })

  test('a writer that gives up lets the readers behind it in', async () => {
    const lock = new ReadWriteLock({ makeAbortError: () => new Error('gave up') })
    const held = await lock.read()
    const controller = new AbortController()
    const writing = lock.write(async () => {}, controller.signal)
    const late = Promise.resolve(lock.read())
    controller.abort()
    await expect(writing).rejects.toThrow('gave up')
    ;(await late).release()
    held.release()
    expect(lock.isFree).toBe(true)
  })
})

describe('retryUntilDone', () => {
  test('retries in the background until the step succeeds, and reports each failure', async () => {
    const failures: unknown[] = []
    let attempts = 0
    const step = async () => {
      attempts += 1
      if (attempts < 3) throw new Error(`attempt ${attempts}`)
    }
    await retryUntilDone(step, {
      delayMs: 1,
      isOver: () => false,
      onFailure: (error) => failures.push(error),
    })
    expect(attempts).toBe(1)
    await expect.poll(() => attempts).toBe(3)
    expect(failures).toHaveLength(2)
  })
})
