import { mkdirSync, mkdtempSync, readdirSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { newSandboxId, newSnapshotId, type SnapshotId } from '@dormouse/contracts'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { MicrovmLayout, type SavedPaths } from '../host/microvm-layout.ts'
import { removeUnused } from './remove-unused.ts'

const NOW_MS = Date.UTC(2026, 10, 18)
const DAY_MS = 24 * 3_600_000
let directory: string
let layout: MicrovmLayout

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'dormouse-unused-'))
  layout = new MicrovmLayout(directory, directory)
  for (const path of [layout.snapshotsDir, layout.burrowsDir, layout.disksDir, layout.templatesDir])
    mkdirSync(path, { recursive: true })
  for (const name of ['tools-now', 'initrd-now', 'initrd-former', 'empty-v2.qcow2']) disk(name, 30)
})
afterEach(() => rmSync(directory, { recursive: true }))

function age(path: string, days: number): void {
  const at = (NOW_MS - days * DAY_MS) / 1_000
  utimesSync(path, at, at)
}

function disk(name: string, days: number): void {
  writeFileSync(join(layout.disksDir, name), '')
  age(join(layout.disksDir, name), days)
}

function save(paths: SavedPaths, id: SnapshotId, build: string): void {
  const machine = { accelerator: 'tcg', qemuVersion: '7.2.0', kernel: '6.1', memoryBytes: 2 ** 30, cpus: 1 }
  const disks = {
    rootDisk: `root-${build}`,
    toolsDisk: `tools-${build}`,
    disks: [`root-${build}`],
    memory: [],
  }
  const base = { machine, template: 'python', templateHash: 'h', build, ...disks }
  const common = { formatVersion: 1, id, sandboxId: newSandboxId(), kind: 'full', limits: {}, sums: {} }
  mkdirSync(paths.dir)
  const manifest = { ...common, createdAt: '2026-11-01T00:00:00Z', base, bytes: { images: 0, memory: 0 } }
  writeFileSync(paths.manifest, JSON.stringify(manifest))
}

function template(build: string, days: number): void {
  const paths = layout.template(build)
  save(paths, newSnapshotId(), build)
  age(paths.manifest, days)
  disk(`root-${build}`, 30)
  disk(`tools-${build}`, 30)
}

const remove = (of = layout) =>
  removeUnused({ layout: of, toolsDisk: '/d/tools-now', kernels: KERNELS }, NOW_MS)
const started = (release: string, initrd: string) =>
  [release, { release, isPinned: true, image: '', modulesDir: '', initrd }] as const
// Machines that were booted with the former kernel still start from its files.
const KERNELS = new Map([started('2', '/d/initrd-now'), started('1', '/d/initrd-former')])
const KEPT = ['empty-v2.qcow2', 'initrd-former', 'initrd-now', 'tools-now']

test('a template that nothing refers to goes a week after its last use, with its disks', async () => {
  template('old', 8)
  template('recent', 6)
  template('asleep', 30)
  const id = newSnapshotId()
  save(layout.snapshot(id), id, 'asleep')
  await remove()
  expect(readdirSync(layout.templatesDir)).toEqual(['asleep', 'recent'])
  const disks = ['root-asleep', 'root-recent', 'tools-asleep', 'tools-recent']
  expect(readdirSync(layout.disksDir)).toEqual([...disks, ...KEPT].sort())
})

test('nothing goes while a snapshot cannot be read, or where other servers use the templates', async () => {
  template('old', 8)
  mkdirSync(join(directory, 'elsewhere/microvm/snapshots'), { recursive: true })
  mkdirSync(join(directory, 'elsewhere/microvm/burrows'))
  await remove(new MicrovmLayout(join(directory, 'elsewhere'), directory))
  const { dir, manifest } = layout.snapshot(newSnapshotId())
  mkdirSync(dir)
  writeFileSync(manifest, 'damaged')
  await remove()
  expect(readdirSync(layout.templatesDir)).toEqual(['old'])
  expect(readdirSync(layout.disksDir)).toContain('root-old')
})
