import { newSandboxId } from '@dormouse/contracts'
import { expect, it } from 'vitest'
import { FreeSpaceWatch } from './free-space-watch.ts'

const GIB = 1024 ** 3

function world(reserve = { bytes: 10 * GIB, files: 1_000 }) {
  const now = { ms: 0, bytes: 100 * GIB, files: 1_000_000 }
  const host = new FreeSpaceWatch({
    reserve,
    free: () => ({ bytes: now.bytes, files: now.files }),
    clock: () => now.ms,
  })
  /** After a second in which this much was written. */
  const second = ({ bytes = 0, files = 0 }) => {
    now.ms += 1_000
    now.bytes -= bytes
    now.files -= files
    return host.check()
  }
  return { now, host, second }
}

it('FreeSpaceWatch sees a threat before the reserve is touched, at the speed at which room goes', () => {
  const { now, host, second } = world()
  host.check()
  expect(second({ bytes: 20 * GIB })).toEqual({ bytes: false, files: false })
  expect(second({ bytes: 20 * GIB })).toEqual({ bytes: true, files: false })
  expect(now.bytes).toBeGreaterThan(10 * GIB)
  expect(second({})).toEqual({ bytes: false, files: false })
  expect(second({ files: 400_000 })).toEqual({ bytes: false, files: true })
})

it('FreeSpaceWatch sees no threat where nothing is to be kept', () => {
  const { second } = world({ bytes: 0, files: 0 })
  second({ bytes: 99 * GIB, files: 999_999 })
  expect(second({ bytes: GIB, files: 1 })).toEqual({ bytes: false, files: false })
})

it('FreeSpaceWatch lets a sandbox that was stopped wake when there is room again, and others always', () => {
  const { now, host } = world()
  const [stopped, other] = [newSandboxId(), newSandboxId()]
  host.stop(stopped)
  now.bytes = 11 * GIB
  host.requireRoomFor(other)
  expect(() => host.requireRoomFor(stopped)).toThrow(
    expect.objectContaining({ code: 'overloaded', details: expect.objectContaining({ reason: 'disk' }) }),
  )
  now.bytes = 13 * GIB
  host.requireRoomFor(stopped)
  now.bytes = 11 * GIB
  host.requireRoomFor(stopped)
})
