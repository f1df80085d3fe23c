import { ERRORS, type ErrorCode } from '@dormouse/contracts'
import { describe, expect, test } from 'vitest'
import { DormouseError } from '../error.ts'
import { isPassing } from './http.ts'

describe('what is tried again', () => {
  const codes = Object.keys(ERRORS) as ErrorCode[]
  const passing = codes.filter((code) => isPassing(new DormouseError(code, '')))

  test('is only what the registry says may work later', () => {
    expect(passing.filter((code) => !ERRORS[code].retry)).toEqual([])
  })

  test('is not what somebody has to do something about first', () => {
    expect(passing).not.toContain('limit_reached')
    expect(passing).not.toContain('no_space')
    expect(passing).not.toContain('in_use')
    expect(passing).toContain('overloaded')
  })
})
