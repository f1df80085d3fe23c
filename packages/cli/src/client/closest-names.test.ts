import { expect, test } from 'vitest'
import { closestNames, didYouMean, didYouMeanCommand } from './closest-names.ts'

test('names with few typing mistakes are suggested, and others are not', () => {
  const names = ['analysis', 'analytics', 'box', 'python']
  expect(closestNames('anlysis', names)).toEqual(['analysis'])
  expect(closestNames('pyhton', names)).toEqual(['python'])
  expect(closestNames('Box', names)).toEqual(['box'])
  expect(closestNames('bx', names)).toEqual(['box'])
  expect(closestNames('omega', ['alpha', 'alphabet'])).toEqual([])
  expect(closestNames('anything', [])).toEqual([])
})

test('suggestions are questions; commands have synonyms', () => {
  expect(didYouMean('omega', ['alpha'])).toBe('')
  expect(didYouMean('alpa', ['alpha'])).toBe('Did you mean "alpha"? ')
  expect(didYouMean('bo', ['bot', 'bob', 'box'])).toBe('Did you mean "bob", "bot" or "box"? ')
  expect(didYouMeanCommand('delete', ['rm', 'create'])).toBe('Did you mean "rm"? ')
  expect(didYouMeanCommand('creat', ['rm', 'create'])).toBe('Did you mean "create"? ')
})
