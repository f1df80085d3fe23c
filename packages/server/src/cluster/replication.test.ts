import { expect, it } from 'vitest'
import { reasonToStay } from './replication.ts'

const row = { volumes: [], ephemeral: false, idleTimeoutMs: 1 } as const
const volume = { volumeId: 'vol-1' as never, path: '/data', readOnly: false }

it.each([
  [row, undefined],
  [{ ...row, volumes: [volume] }, 'it mounts volumes, which stay on their host (/data)'],
  [{ ...row, ephemeral: true }, undefined],
  [
    { ...row, ephemeral: true, idleTimeoutMs: 0 },
    'it is ephemeral and never sleeps, so it ends with its use',
  ],
] as const)('says why a sandbox cannot leave its host: %j', (given, reason) => {
  expect(reasonToStay(given)).toBe(reason)
})
