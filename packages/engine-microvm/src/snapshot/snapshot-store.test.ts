import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { newSandboxId, newSnapshotId } from '@dormouse/contracts'
import { FailureLog } from '@dormouse/engine-linux/for-engines'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { MicrovmLayout } from '../host/microvm-layout.ts'
import { MicrovmHost, type MicrovmHostParts } from '../microvm-host.ts'
import { MicrovmSnapshotStore } from './snapshot-store.ts'

const MACHINE = { accelerator: 'tcg', qemuVersion: '7.2.1', kernel: '6.1.0-50', memoryBytes: 4096, cpus: 1 }

let directory: string
let layout: MicrovmLayout
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'dormouse-store-'))
  layout = new MicrovmLayout(directory, directory)
  mkdirSync(layout.snapshotsDir, { recursive: true })
})
afterEach(() => rmSync(directory, { recursive: true }))

function save(machine: Partial<typeof MACHINE> = {}) {
  const id = newSnapshotId()
  const disks = { rootDisk: 'root', toolsDisk: 'tools', disks: ['root'], memory: [] }
  const base = {
    machine: { ...MACHINE, ...machine },
    template: 'python',
    templateHash: 'h',
    build: 'b',
    ...disks,
  }
  const common = { formatVersion: 1, id, sandboxId: newSandboxId(), kind: 'full', limits: {}, sums: {} }
  const manifest = { ...common, createdAt: '2026-11-01T00:00:00Z', base, bytes: { images: 0, memory: 0 } }
  mkdirSync(layout.snapshot(id).dir)
  writeFileSync(layout.snapshot(id).manifest, JSON.stringify(manifest))
  return id
}

it('says at the start which snapshots cannot run here, once for each reason, and keeps them', async () => {
  const [usable, older, ...others] = [
    save(),
    save({ kernel: '6.1.0-44' }),
    save({ kernel: '6.1.0-9' }),
    save({ qemuVersion: '7.2.0' }),
    save({ qemuVersion: '7.2.0' }),
  ]
  mkdirSync(join(layout.snapshotsDir, `.taking-${newSnapshotId()}`))
  const said: unknown[] = []
  const log = {
    warn: (fields: { snapshots: number; err: Error }) => said.push([fields.snapshots, fields.err.message]),
  }
  const qemu = { version: MACHINE.qemuVersion, accelerator: 'tcg' }
  // The kernel of an earlier version is still installed.
  const kernels = new Map(['6.1.0-50', '6.1.0-44'].map((release) => [release, { release }]))
  const failures = new FailureLog(log as unknown as ConstructorParameters<typeof FailureLog>[0])
  const store = new MicrovmSnapshotStore(
    new MicrovmHost({ layout, qemu, kernels, failures } as unknown as MicrovmHostParts),
  )
  await store.takeOver()
  expect(said.sort()).toEqual([
    [1, 'its guest runs Linux 6.1.0-9, and guests of this host run Linux 6.1.0-50'],
    [2, 'it was taken by QEMU 7.2.0, and this host has 7.2.1'],
  ])
  expect(readdirSync(layout.snapshotsDir)).toHaveLength(5)
  for (const id of [usable, older]) expect(await store.getUsable(id!)).toMatchObject({ id })
  for (const id of others)
    await expect(store.getUsable(id)).rejects.toMatchObject({ code: 'snapshot_unusable' })
})
