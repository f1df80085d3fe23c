import { expect, test } from 'vitest'
import type { HostRecord } from './host-record.ts'
import { chooseHost, diskProblemOf } from './placement.ts'

const host = (id: string, memoryFreeBytes: number, changes: Partial<HostRecord> = {}): HostRecord => ({
  ...{ id, address: 'http://x', version: '0', startedAt: '', instance: id, epoch: 1, renewals: 0 },
  ...{ hasLeft: false, isCordoned: false, arch: 'x64', kernel: '6.12', abilities: undefined },
  room: { memoryTotalBytes: 100, memoryFreeBytes, diskTotalBytes: 1, diskFreeBytes: 1, cpus: 1 },
  load: { running: 0, sandboxes: 0, cpu: 0 },
  ...changes,
})
const request = { memoryBytes: 10, preferred: 'asked', problemOf: () => undefined }
const chosen = (hosts: HostRecord[], changes: object = {}) =>
  chooseHost(hosts, { ...request, ...changes }).chosen?.id

test('the host that is asked is chosen, unless another one has clearly more room', () => {
  expect(chosen([host('asked', 30), host('other', 90)])).toBe('asked')
  expect(chosen([host('asked', 20), host('other', 90)])).toBe('other')
})

test('a host that holds the snapshot comes first, unless it has clearly less room', () => {
  const isNear = ({ holds }: HostRecord) => holds?.includes('snap') === true
  const holds = { holds: ['snap'] }
  expect(chosen([host('asked', 90), host('near', 30, holds)], { isNear })).toBe('near')
  expect(chosen([host('asked', 90), host('near', 20, holds)], { isNear })).toBe('asked')
  expect(chosen([host('asked', 50, holds), host('near', 90, holds)], { isNear })).toBe('asked')
})

test('hosts that are full, cordoned, too small or unable are not chosen, and say why', () => {
  const problemOf = ({ id }: HostRecord) => (id === 'old' ? 'its CPU is older' : undefined)
  const hosts = [
    host('asked', 4),
    host('closed', 90, { isCordoned: true }),
    host('old', 90, { holds: ['snap'] }),
  ]
  const { chosen: none, candidates } = chooseHost(hosts, { ...request, problemOf, isNear: () => true })
  expect(none).toBeUndefined()
  expect(candidates.map(({ problem }) => problem)).toEqual([
    ...['it has no free memory', 'it is cordoned', 'its CPU is older'],
  ])
  expect(chosen([host('asked', 90)], { memoryBytes: 101 })).toBeUndefined()
})

test('a host is not chosen when it would refuse for lack of disk, or what arrives does not fit', () => {
  const withDisk = (id: string, diskFreeBytes: number, minFreeDiskBytes?: number) =>
    host(id, 90, {
      room: { memoryTotalBytes: 100, memoryFreeBytes: 90, diskTotalBytes: 100, diskFreeBytes, cpus: 1 },
      ...(minFreeDiskBytes !== undefined && { minFreeDiskBytes }),
    })
  const hosts = [withDisk('asked', 19, 20), withDisk('other', 40, 20)]
  expect(chosen(hosts)).toBe('other')
  expect(chosen([withDisk('asked', 20, 20)])).toBe('asked')
  expect(chosen(hosts, { arrivingBytes: () => 20 })).toBe('other')
  const { candidates } = chooseHost(hosts, { ...request, arrivingBytes: () => 21 })
  expect(candidates.map(({ problem }) => problem)).toEqual([
    ...['it has too little free disk', 'it has too little free disk for the snapshot'],
  ])
  // An earlier version does not say when it refuses.
  expect(chosen([withDisk('asked', 5)], { arrivingBytes: () => 5 })).toBe('asked')
  expect(diskProblemOf(withDisk('asked', 5), 6)).toContain('for the snapshot')
})
