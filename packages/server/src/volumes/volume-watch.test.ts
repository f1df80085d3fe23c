import { setTimeout as sleep } from 'node:timers/promises'
import { newVolumeId, type VolumeId } from '@dormouse/contracts'
import { afterEach, expect, it } from 'vitest'
import type { SandboxRow } from '../store/sandbox-rows.ts'
import type { VolumeRows } from './volume-rows.ts'
import { VolumeWatch } from './volume-watch.ts'

const silent = { info() {}, warn() {}, error() {} }
const volume = newVolumeId()
let watch: VolumeWatch | undefined
afterEach(() => watch?.[Symbol.dispose]())

/** A disk that says how often it was looked at. */
function world({ tookMs = 0 } = {}) {
  const seen = { bytes: new Map<VolumeId, number>(), looks: 0, disk: 5, inUse: [] as VolumeId[] }
  const rows = {
    all: () => [{ id: volume }],
    setBytes: (id: VolumeId, bytes: number) => seen.bytes.set(id, bytes),
  } as unknown as VolumeRows
  const measureVolume = async () => {
    seen.looks += 1
    const { disk } = seen
    await sleep(tookMs)
    return disk
  }
  watch = new VolumeWatch({ rows, engine: { measureVolume }, inUse: () => seen.inUse, log: silent })
  return { seen, watch }
}

it('VolumeWatch looks at all volumes once when it starts, and not again while nobody can write', async () => {
  const { seen } = world()
  await expect.poll(() => seen.bytes.get(volume)).toBe(5)
  await sleep(1_500)
  expect(seen.looks).toBe(1)
})

it('VolumeWatch looks again while a sandbox can write', async () => {
  const { seen } = world()
  seen.inUse = [volume]
  await expect.poll(() => seen.bytes.get(volume)).toBe(5)
  seen.disk = 9
  await expect.poll(() => seen.bytes.get(volume), { timeout: 5_000 }).toBe(9)
})

it('VolumeWatch looks once more after a sandbox has slept, or gone', async () => {
  const { seen, watch } = world()
  await expect.poll(() => seen.looks).toBe(1)
  const mount = { volume: 'v', volumeId: volume, path: '/data' }
  const row = (readOnly: boolean) => ({ volumes: [{ ...mount, readOnly }] }) as unknown as SandboxRow
  watch.listener.recorded?.(row(true), { event: 'slept', cause: 'idle' })
  await sleep(1_500)
  expect(seen.looks).toBe(1)
  seen.disk = 7
  watch.listener.recorded?.(row(false), { event: 'slept', cause: 'idle' })
  await expect.poll(() => seen.bytes.get(volume), { timeout: 5_000 }).toBe(7)
  seen.disk = 8
  watch.listener.deleted?.(row(false))
  await expect.poll(() => seen.bytes.get(volume), { timeout: 5_000 }).toBe(8)
})

it('VolumeWatch rests twenty times as long as it looked', async () => {
  const { seen } = world({ tookMs: 100 })
  seen.inUse = [volume]
  await expect.poll(() => seen.looks).toBe(1)
  await sleep(1_800)
  expect(seen.looks).toBe(1)
})
