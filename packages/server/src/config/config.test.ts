import { expect, it } from 'vitest'
import { envToConfig } from './config.ts'

it('envToConfig uses the standard data directory unless another is named', () => {
  expect(envToConfig({})).toEqual({ dataDir: '/var/lib/dormouse' })
  expect(envToConfig({ dataDir: '' })).toEqual({ dataDir: '/var/lib/dormouse' })
  expect(envToConfig({ dataDir: '/srv/dormouse' })).toEqual({ dataDir: '/srv/dormouse' })
})

it('envToConfig refuses a relative data directory', () => {
  expect(() => envToConfig({ dataDir: 'data' })).toThrow(
    expect.objectContaining({ code: 'invalid_argument' }),
  )
})
