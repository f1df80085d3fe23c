import { expect, it } from 'vitest'
import { reasonToStay } from './replication.ts'

const row = { volumes: [], ephemeral: false, isolation: 'process' } as const
const volume = { volumeId: 'vol-1' as never, path: '/data', readOnly: false }

it.each([
  [row, undefined],
  [{ ...row, volumes: [volume] }, 'it mounts volumes, which stay on their host (/data)'],
  [{ ...row, ephemeral: true }, 'it is ephemeral and is never saved'],
  [{ ...row, isolation: 'microvm' }, 'it is a virtual machine, whose snapshots do not travel'],
] as const)('says why a sandbox cannot leave its host: %j', (given, reason) => {
  expect(reasonToStay(given)).toBe(reason)
})
