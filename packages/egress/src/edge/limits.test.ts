import { SECRET_MIN_BYTES } from '@dormouse/contracts'
import { expect, test } from 'vitest'
import { CONCEALED_MIN_BYTES } from './limits.ts'

test('whatever may be a secret is looked for in answers', () => {
  expect(CONCEALED_MIN_BYTES).toBe(SECRET_MIN_BYTES)
})
