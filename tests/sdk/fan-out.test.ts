import { type Candidates, DormouseError, type Sandbox } from 'dormouse'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { useSdkServer } from './sdk-server.ts'

const server = useSdkServer()
let parent: Sandbox
beforeEach(async () => {
  parent = await server.create()
  await parent.runCode('import time\nbase = 100')
})
afterEach(() => parent.delete())

describe('map', () => {
  test('returns outcomes in order, each from its own fork, and leaves no fork', async () => {
    const inputs = [5, 1, 4, 2, 3, 0]
    const outcomes = await parent.map(inputs, 'time.sleep(item / 20); base += item; base', { concurrency: 3 })
    expect(outcomes.map((outcome) => outcome.ok && outcome.value.text)).toEqual([
      '105',
      '101',
      '104',
      '102',
      '103',
      '100',
    ])
    expect(outcomes.map(({ index, input }) => [index, input])).toEqual(
      inputs.map((input, index) => [index, input]),
    )
    expect((await parent.runCode('base')).text).toBe('100')
    expect(await server.ids()).toEqual([parent.id])
  })

  test('takes any JSON as input', async () => {
    const inputs = [{ 'a"b': [1, null, 'é😀\u2028\n\\'] }, 'x', null, true]
    const outcomes = await parent.map(inputs, 'import json; print(json.dumps(row))', { variable: 'row' })
    expect(outcomes.map((outcome) => outcome.ok && JSON.parse(outcome.value.stdout))).toEqual(inputs)
  })

  test('continues when one input fails', async () => {
    const outcomes = await parent.map([1, 0, 2], '10 / item')
    expect(outcomes.map(({ ok }) => ok)).toEqual([true, false, true])
    const failed = outcomes[1]
    expect(failed?.ok === false && failed.error).toMatchObject({
      code: 'run_failed',
      message: 'ZeroDivisionError: division by zero',
      result: { exitCode: 1 },
    })
    expect(await server.ids()).toEqual([parent.id])
  })

  test('never has more forks than `concurrency`, and takes a function', async () => {
    let now = 0
    let most = 0
    const outcomes = await parent.map(
      [1, 2, 3, 4, 5],
      async (child, input) => {
        now += 1
        most = Math.max(most, now)
        await child.files.write('/root/in', String(input))
        const { stdout } = await child.commands.run('expr $(cat /root/in) \\* 2')
        expect((await server.ids()).length).toBeLessThanOrEqual(3)
        now -= 1
        if (input === 3) throw new Error('three')
        return Number(stdout)
      },
      { concurrency: 2 },
    )
    expect(outcomes.map((outcome) => (outcome.ok ? outcome.value : outcome.error.message))).toEqual([
      2,
      4,
      'three',
      8,
      10,
    ])
    expect(most).toBe(2)
  })

  test('deletes every child before it throws when aborted', async () => {
    const controller = new AbortController()
    const mapping = parent.map([1, 2, 3, 4, 5, 6], 'time.sleep(60)', {
      concurrency: 3,
      signal: controller.signal,
    })
    mapping.catch(() => {})
    await expect.poll(() => server.ids()).toHaveLength(1 + 3)
    controller.abort()
    await expect(mapping).rejects.toMatchObject({ code: 'cancelled' })
    expect(await server.ids()).toEqual([parent.id])
  })

  test('refuses invalid arguments, and accepts no inputs', async () => {
    await expect(parent.map([1], '1', { concurrency: 0 })).rejects.toMatchObject({ code: 'invalid_argument' })
    await expect(parent.map([1], '1', { variable: 'a b' })).rejects.toMatchObject({
      code: 'invalid_argument',
    })
    expect(await parent.map([], '1')).toEqual([])
  })
})

describe('race', () => {
  test('keeps the best child with its state, and deletes the others', async () => {
    const { winner, ranking } = await parent.race(['base += 1', 'base += 3', 'base += 2'], { score: 'base' })
    expect(ranking.map(({ rank, index, score }) => [rank, index, score])).toEqual([
      [1, 1, 103],
      [2, 2, 102],
      [3, 0, 101],
    ])
    expect((await winner.runCode('base')).text).toBe('103')
    expect((await parent.runCode('base')).text).toBe('100')
    expect(await server.ids()).toEqual([parent.id, winner.id].sort())
    expect(await winner.refresh()).toMatchObject({
      ephemeral: false,
      idleTimeoutMs: 0,
      forkedFrom: parent.id,
    })
    await winner.delete()
  })

  test('ranks failed candidates last, and takes the lowest score with `best`', async () => {
    const candidates = ['loss = 0.5', 'raise ValueError("no")', 'loss = 0.25', 'pass', 'loss = float("nan")']
    const { winner, ranking } = await parent.race(candidates, { score: 'loss', best: 'lowest' })
    expect(ranking.map(({ index }) => index)).toEqual([2, 0, 1, 3, 4])
    expect(ranking.slice(2).map(({ error }) => error?.message)).toEqual([
      'ValueError: no',
      "NameError: name 'loss' is not defined",
      'The score is not a number',
    ])
    await winner.delete()
  })

  test('scores with a function, and runs one candidate n times with different seeds', async () => {
    const { winner, ranking } = await parent.race(4, {
      run: 'import random; luck = random.random(); luck',
      score: ({ text }) => Number(text),
    })
    const scores = ranking.map(({ score }) => score ?? -1)
    expect(new Set(scores).size).toBe(4)
    expect(scores).toEqual([...scores].sort((a, b) => b - a))
    expect(Number((await winner.runCode('luck')).text)).toBe(scores[0])
    await winner.delete()
  })

  test('throws with the ranking if all candidates fail, and leaves no child', async () => {
    const error = await parent.race(['1/0', 'oops'], { score: '1' }).catch((thrown: unknown) => thrown)
    expect(error).toMatchObject({ code: 'run_failed', details: { ranking: [{ index: 0 }, { index: 1 }] } })
    expect(error).toBeInstanceOf(DormouseError)
    expect(await server.ids()).toEqual([parent.id])
  })

  test('leaves no child when aborted, not even the leading one', async () => {
    const controller = new AbortController()
    setTimeout(() => controller.abort(), 1_000)
    const racing = parent.race(['x = 1', 'time.sleep(60)'], { score: '1', signal: controller.signal })
    await expect(racing).rejects.toMatchObject({ code: 'cancelled' })
    expect(await server.ids()).toEqual([parent.id])
    await expect(parent.race(3, { score: '1' })).rejects.toMatchObject({ code: 'invalid_argument' })
  })

  test.each([0, -1, 1.5, Number.NaN])('refuses to run %d at a time', async (concurrency) => {
    const racing = parent.race(['1', '2'], { score: '1', concurrency })
    await expect(racing).rejects.toMatchObject({
      code: 'invalid_argument',
      message: `concurrency: must be a whole number from 1 (saw ${concurrency})`,
    })
  })

  test('with n takes a list, a function of the index, or one candidate for all', async () => {
    const race = async (...[n, candidates]: [number, Candidates]) => {
      const { winner, ranking } = await parent.race(n, candidates, { score: 'base' })
      await winner.delete()
      return ranking.map(({ index, score }) => [index, score])
    }
    expect(await race(2, ['base += 1', 'base += 2'])).toEqual([
      [1, 102],
      [0, 101],
    ])
    expect(await race(3, (index) => `base -= ${index}`)).toEqual([
      [0, 100],
      [1, 99],
      [2, 98],
    ])
    // A list that is shorter than n is repeated.
    expect(await race(3, ['base += 5', (child) => child.runCode('base += 6')])).toEqual([
      [1, 106],
      [0, 105],
      [2, 105],
    ])
    expect(await race(2, 'base *= 2')).toEqual([
      [0, 200],
      [1, 200],
    ])
    expect(await server.ids()).toEqual([parent.id])
  })

  test.each<[string, unknown, unknown, RegExp]>([
    ['one string, whose letters would race', 'base', undefined, /n: .*saw "base"/],
    ['two lists', ['1'], ['2'], /n: .*saw \["1"\]/],
    ['more candidates than children', 1, ['1', '2'], /2 candidates for 1 child/],
    ['no candidates', 2, [], /candidates: must not be empty/],
    ['no children', 0, ['1'], /saw 0/],
    ['a function that makes none', 2, () => 7, /candidates: .*saw 7/],
  ])('of n refuses %s', async (_what, n, candidates, message) => {
    const options = { score: '1' }
    const given = candidates === undefined ? [options] : [candidates, options]
    const racing = parent.race(...([n, ...given] as unknown as Parameters<typeof parent.race>))
    await expect(racing).rejects.toMatchObject({
      code: 'invalid_argument',
      message: expect.stringMatching(message),
    })
  })
})
