import { describe, expect, test } from 'vitest'
import { GuestNumbers } from './guest-usage.ts'

function numbersOf(answers: (string | Error)[], isSilent = () => false) {
  const control = async () => {
    const answer = answers.shift() ?? new Error('the guest does not answer')
    if (answer instanceof Error) throw answer
    return answer
  }
  return new GuestNumbers({ control }, isSilent)
}

describe('numbers of a guest', () => {
  test('are those that it says', async () => {
    const numbers = numbersOf(['4096 3 1 2048 70'])
    const said = { memoryBytes: 4096, pids: 3, oomKills: 1, heldBytes: 2048, usedFiles: 70 }
    expect(await numbers.ask()).toEqual(said)
  })

  test('of a machine that an earlier version booted are fewer', async () => {
    const { heldBytes, usedFiles, pids } = await numbersOf(['4096 3 1']).ask()
    expect({ heldBytes, usedFiles, pids }).toEqual({ pids: 3 })
  })

  test.each([
    ['nothing', new Error('closed')],
    ['too few', '1 2'],
    ['no numbers', 'a b c'],
    ['less than nothing', '4096 3 1 -5 70'],
    ['fractions', '4096 3 1 0.5 70'],
    ['more than a number can be', '1e300 3 1 2048 70'],
  ])('stay as they were when it says %s', async (_what, answer) => {
    const numbers = numbersOf(['4096 3 1 2048 70', answer])
    const before = await numbers.ask()
    expect(await numbers.ask()).toEqual(before)
  })

  test('never count fewer kills than before', async () => {
    const numbers = numbersOf(['4096 3 5 2048 70', '4096 3 0 2048 70'])
    await numbers.ask()
    expect((await numbers.ask()).oomKills).toBe(5)
  })

  test('come also from answers that are late, of a guest that is asked no more than it can answer', async () => {
    const asked: ((answer: string) => void)[] = []
    const control = () => new Promise<string>((resolve) => asked.push(resolve))
    const numbers = new GuestNumbers({ control }, () => false)
    for (let call = 0; call < 20; call += 1) expect((await numbers.ask(1)).oomKills).toBe(0)
    expect(asked).toHaveLength(4)
    for (const [index, answer] of asked.entries()) answer(`4096 3 ${index} 2048 70`)
    const before = asked.length
    const next = numbers.ask(60_000)
    expect(asked).toHaveLength(before)
    expect((await next).oomKills).toBe(3)
  })

  test('are not asked for while it stands still', async () => {
    let isSilent = false
    const numbers = numbersOf(['4096 3 1 2048 70', '1 1 1 1 1'], () => isSilent)
    const before = await numbers.ask()
    isSilent = true
    expect(await numbers.ask()).toEqual(before)
  })
})
