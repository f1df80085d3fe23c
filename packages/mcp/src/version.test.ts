import { expect, it } from 'vitest'
import packageJson from '../package.json' with { type: 'json' }
import { VERSION } from './version.ts'

it('VERSION is that of the package', () => {
  expect(VERSION).toBe(packageJson.version)
})
