import { describe, expect, test } from 'vitest'
import { PossibleStates } from './possible-states.ts'

describe('possible states', () => {
  test('a token that was acknowledged must be there', () => {
    const states = PossibleStates.exactly(['a']).with('b')
    expect(states.seen(['b', 'a'])?.toString()).toBe('{a b}')
    expect(states.seen(['a'])).toBeUndefined()
  })

  test('a token whose answer was lost may be there', () => {
    const states = PossibleStates.exactly(['a']).maybeWith(['b'])
    expect(states.seen(['a'])).toBeDefined()
    expect(states.seen(['a', 'b'])).toBeDefined()
    expect(states.seen(['b'])).toBeUndefined()
  })

  test('a token that is there twice is possible in no state', () => {
    expect(PossibleStates.exactly(['a']).seen(['a', 'a'])).toBeUndefined()
  })
})
