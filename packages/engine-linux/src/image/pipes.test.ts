import { describe, expect, test } from 'vitest'
import { findUint, type Message, setUint } from './message.ts'
import { mendPipe } from './pipes.ts'

const pipe = (bytes: bigint, size: bigint): Message => {
  const message: Message = []
  setUint(message, 1, 7n)
  setUint(message, 2, bytes)
  setUint(message, 3, size)
  return message
}

describe('mendPipe', () => {
  test('leaves the size of an ordinary pipe to the kernel', () => {
    const mended = mendPipe(pipe(100n, 65_536n))
    expect(findUint(mended, 3)).toBeUndefined()
    expect(findUint(mended, 1)).toBe(7n)
    expect(findUint(mended, 2)).toBe(100n)
  })

  test('keeps a size that a program chose, and one that the data needs', () => {
    expect(findUint(mendPipe(pipe(0n, 1_048_576n)), 3)).toBe(1_048_576n)
    expect(findUint(mendPipe(pipe(60_000n, 65_536n)), 3)).toBe(65_536n)
  })
})
