import { describe, expect, test } from 'vitest'
import { createSecretSchema, sandboxSecretsField } from './secrets.ts'

const GOOD = { name: 'API_KEY', value: 'sk-12345', domains: ['api.example.com'] }

describe('a secret', () => {
  test.each([
    ['api.example.com', 'api.example.com'],
    ['API.Example.com.', 'api.example.com'],
    ['*.example.com', '*.example.com'],
    ['gitlab', 'gitlab'],
  ])('can be for %s', (domain, kept) => {
    expect(createSecretSchema.parse({ ...GOOD, domains: [domain] }).domains).toEqual([kept])
  })

  test.each([
    '*',
    '*.com',
    'https://api.example.com',
    'api.example.com:443',
    '203.0.113.1',
    '10.0.0.0/8',
    'a b',
    '',
    '127.1',
  ])('cannot be for %j', (domain) => {
    expect(createSecretSchema.safeParse({ ...GOOD, domains: [domain] }).success).toBe(false)
  })

  test.each([
    ...[
      '',
      '1234567',
      'long enough\nX-Other: b',
      'long enough\r',
      'long\0enough',
      ' long enough',
      'long enough ',
    ],
    ...['long énough', 'x'.repeat(9000)],
  ])('cannot have the value %j, and no message repeats it', (value) => {
    const { success, error } = createSecretSchema.safeParse({ ...GOOD, value })
    expect(success).toBe(false)
    if (value.length > 2)
      expect(JSON.stringify(error?.issues)).not.toContain(JSON.stringify(value).slice(1, -1))
  })

  test.each(['PATH', 'LD_PRELOAD', 'DORMOUSE_SANDBOX_ID', 'SSL_CERT_FILE', '1A', 'A-B', ''])(
    'cannot be named %j',
    (name) => {
      expect(createSecretSchema.safeParse({ ...GOOD, name }).success).toBe(false)
    },
  )

  test('is given to a sandbox once', () => {
    expect(sandboxSecretsField.safeParse(['A', 'B']).success).toBe(true)
    expect(sandboxSecretsField.safeParse(['A', 'A']).success).toBe(false)
  })
})
