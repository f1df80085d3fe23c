import { ERRORS, type ErrorCode } from '@dormouse/contracts'
import { describe, expect, test } from 'vitest'
import { DormouseError } from '../error.ts'
import { isTransient } from './http.ts'

describe('errors after which a request is repeated', () => {
  const codes = Object.keys(ERRORS) as ErrorCode[]
  const transient = codes.filter((code) => isTransient(new DormouseError(code, '')))

  test('are only those that the registry calls retryable', () => {
    expect(transient.filter((code) => !ERRORS[code].retry)).toEqual([])
  })

  test('are not those that need an action first', () => {
    expect(transient).not.toContain('limit_reached')
    expect(transient).not.toContain('no_space')
    expect(transient).not.toContain('in_use')
    expect(transient).toContain('overloaded')
  })
})
