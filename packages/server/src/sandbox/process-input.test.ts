import { expect, test } from 'vitest'
import { ProcessInput } from './process-input.ts'

const rest = (input: ProcessInput) => {
  const pieces: string[] = []
  for (let piece = input.next(); piece !== undefined; piece = input.next()) {
    pieces.push(Buffer.from(piece).toString())
    input.sent({ untakenBytes: Number.POSITIVE_INFINITY })
  }
  return pieces.join('')
}
const inputOf = (...pieces: string[]) => {
  const input = new ProcessInput()
  for (const piece of pieces) input.add(Buffer.from(piece))
  return input
}

test('what the process has not taken is sent again, from the middle of a piece too', () => {
  const input = inputOf('abc', 'def', 'ghi')
  expect(rest(input)).toBe('abcdefghi')
  expect(input.rewindTo(4)).toBe(true)
  expect(rest(input)).toBe('efghi')
  expect(input.rewindTo(9)).toBe(true)
  expect([rest(input), input.isEmpty]).toEqual(['', true])
})

test('what the process has taken is forgotten, and no agent can ask for it', () => {
  const input = inputOf('abc', 'def')
  input.sent({ untakenBytes: 3 })
  input.sent({ untakenBytes: 3 })
  expect(input.isEmpty).toBe(false)
  expect([input.rewindTo(2), input.rewindTo(7)]).toEqual([false, false])
  expect(input.rewindTo(3)).toBe(true)
  expect(rest(input)).toBe('def')
})
