import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { newBurrowId, newSnapshotId } from '@dormouse/contracts'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { Layout } from '../host/layout.ts'
import { recordSaveIntent, undoSave } from './save-intent.ts'

let root: string
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'dormouse-taking-'))
})
afterEach(() => rm(root, { recursive: true }))

/** A burrow of which a snapshot is being taken: files in `upper`, a work directory with something in it. */
async function begin() {
  const paths = new Layout(root, root).burrow(newBurrowId())
  const taking = {
    snapshotId: newSnapshotId(),
    final: join(root, 'final'),
    work: join(root, 'work'),
    layer: join(root, 'layer'),
  }
  await mkdir(paths.dir, { recursive: true })
  await recordSaveIntent(paths, taking)
  await mkdir(join(taking.work, 'raw'), { recursive: true })
  return { paths, taking }
}

describe('undoSave', () => {
  it('does nothing to a burrow that is not being saved', async () => {
    const paths = new Layout(root, root).burrow(newBurrowId())
    await mkdir(paths.upper, { recursive: true })
    expect(await undoSave(paths)).toBeUndefined()
    expect(await readdir(paths.dir)).toEqual(['upper'])
  })

  it('gives the burrow its files back and removes what is unfinished, also the second time', async () => {
    const { paths, taking } = await begin()
    await mkdir(taking.layer)
    await writeFile(join(taking.layer, 'file'), 'content')
    expect(await undoSave(paths)).toBeUndefined()
    expect(await readdir(paths.upper)).toEqual(['file'])
    expect(await readdir(root)).toEqual(['burrows'])
    expect(await undoSave(paths)).toBeUndefined()
    expect(await readdir(paths.dir)).toEqual(['upper'])
  })

  it('leaves files alone that had not been moved yet', async () => {
    const { paths } = await begin()
    await mkdir(paths.upper)
    expect(await undoSave(paths)).toBeUndefined()
    expect(await readdir(paths.dir)).toEqual(['upper'])
  })

  it('answers a snapshot that is finished, and leaves it its files', async () => {
    const { paths, taking } = await begin()
    await mkdir(taking.layer)
    await mkdir(taking.final)
    expect(await undoSave(paths)).toBe(taking.snapshotId)
    expect((await readdir(root)).sort()).toEqual(['burrows', 'final', 'layer', 'work'])
  })

  it('takes a record that was cut off for one of nothing done', async () => {
    const { paths } = await begin()
    await mkdir(paths.upper)
    await writeFile(paths.saveIntent, '{"snapshotId":')
    expect(await undoSave(paths)).toBeUndefined()
    expect(await readdir(paths.dir)).toEqual(['upper'])
  })
})
