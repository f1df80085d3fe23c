import { newVolumeId, type VolumeId } from '@dormouse/contracts'
import type { Measurement } from '@dormouse/engine'
import { expect, it } from 'vitest'
import type { SandboxRow } from '../store/sandbox-rows.ts'
import { UnmeasuredVolumes } from './unmeasured-volumes.ts'
import type { VolumeRow, VolumeRows } from './volume-rows.ts'

function world() {
  const row = {
    id: newVolumeId(),
    state: 'ready',
    bytes: undefined,
    files: undefined,
  } as unknown as VolumeRow
  const kept = { row }
  const inUse: VolumeId[] = []
  const over: VolumeId[] = []
  const rows = {
    all: () => [kept.row],
    get: () => kept.row,
    setUse: (_id: VolumeId, use: object) => {
      kept.row = { ...kept.row, ...use }
    },
  } as unknown as VolumeRows
  const volumes = new UnmeasuredVolumes({
    rows,
    engine: { measureVolume: async () => ({}) as Measurement },
    inUse: () => inUse,
    limitsOf: () => ({ bytes: 100, files: 10 }),
  })
  const list = () => volumes.list((id) => void over.push(id))
  /** As if every volume had been measured. */
  const measure = async (bytes: number, files: number) => {
    for (const subject of list()) {
      await subject.begin()
      subject.found({ bytes, files, isWhole: true })
    }
  }
  return { row, kept, inUse, over, volumes, list, measure }
}

it('UnmeasuredVolumes has every volume once at the start, and again while or after a sandbox can write to it', async () => {
  const { row, inUse, volumes, list, measure, kept } = world()
  expect(list().map(({ key }) => key)).toEqual([row.id])
  await measure(5, 1)
  expect(kept.row).toMatchObject({ bytes: 5, files: 1 })
  expect(list()).toEqual([])
  const mount = { volume: 'v', volumeId: row.id, path: '/data' }
  const sandbox = (readOnly: boolean) => ({ volumes: [{ ...mount, readOnly }] }) as unknown as SandboxRow
  volumes.listener.recorded(sandbox(true))
  expect(list()).toEqual([])
  volumes.listener.recorded(sandbox(false))
  expect(list()).toHaveLength(1)
  await measure(6, 1)
  volumes.listener.deleted?.(sandbox(false))
  expect(list()).toHaveLength(1)
  await measure(6, 1)
  inUse.push(row.id)
  expect(list()).toHaveLength(1)
})

it.each([
  [100, 10, false],
  [101, 1, true],
  [1, 11, true],
])(
  'UnmeasuredVolumes says that a volume with %i bytes and %i files is over: %s',
  async (bytes, files, isOver) => {
    const { row, over, measure } = world()
    await measure(bytes, files)
    expect(over).toEqual(isOver ? [row.id] : [])
  },
)
