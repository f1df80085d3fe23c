import { expect, it } from 'vitest'
import { adviseOnNats } from './nats-version.ts'

it('advises newer NATS servers only where several agree on a change and may acknowledge two', () => {
  for (const version of ['2.8.4', '2.9.10', '2.9.20', 'v2.9.20-beta.1'])
    expect(adviseOnNats(version, 3), version).toContain('2.9.21')
  for (const version of ['2.9.21', '2.10.0', '2.15.1', '3.0.0', 'unknown'])
    expect(adviseOnNats(version, 3), version).toBeUndefined()
  expect(adviseOnNats('2.9.10', 1)).toBeUndefined()
})
