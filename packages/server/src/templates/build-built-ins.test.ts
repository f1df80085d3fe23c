import { DormouseError } from '@dormouse/contracts'
import { describe, expect, test, vi } from 'vitest'
import type { Log } from '../log.ts'
import { buildBuiltIns } from './build-built-ins.ts'
import type { ArchiveName } from './built-in-descriptions.ts'
import type { BuiltInTemplates } from './built-in-templates.ts'
import type { TemplateDescription } from './templates.ts'

const log = { info: vi.fn(), warn: vi.fn(), error: vi.fn() } as unknown as Log

interface Scene {
  current?: readonly string[]
  /** Of the template "data". */
  builtWith?: string
  refuses?: Error
  withoutPip?: boolean
}

function scene({ current = [], builtWith, refuses, withoutPip = false }: Scene = {}) {
  const built: TemplateDescription[] = []
  const failed: [string, unknown][] = []
  const announced: string[] = []
  const templates = {
    announce: ({ name }: TemplateDescription) => announced.push(name),
    isCurrent: async ({ name, description }: TemplateDescription) =>
      current.includes(name) || (name === 'data' && description === builtWith),
    build: async (description: TemplateDescription) => {
      built.push(description)
    },
    fail: ({ name }: TemplateDescription, error: unknown) => failed.push([name, error]),
  } as unknown as BuiltInTemplates
  const fetched: ArchiveName[] = []
  const fetchArchive = async (name: ArchiveName) => {
    if (refuses !== undefined) throw refuses
    fetched.push(name)
    return `/archives/${name}.tgz`
  }
  const fetchLibrary = async () => {
    if (withoutPip) throw new DormouseError('setup_failed', 'pip could not fetch polars')
    return { version: '1', files: ['/wheels/polars-1.whl'] }
  }
  const versionOf = (name: ArchiveName) => `${name}-1`
  const run = (signal = new AbortController().signal) =>
    buildBuiltIns({
      ...{ templates, versionOf, fetchArchive, libraryVersion: () => '1', fetchLibrary, signal, log },
    })
  return { run, built, failed, fetched, announced }
}

describe('buildBuiltIns', () => {
  test('builds each template after the one that it is built on, with the archives that the host fetched', async () => {
    const { run, built, fetched, announced } = scene()
    await run()
    expect(announced).toEqual(built.map(({ name }) => name))
    const seen = new Set(['python'])
    for (const { name, from } of built) {
      expect(seen).toContain(from)
      seen.add(name)
    }
    expect([...seen].sort()).toEqual(['code', 'data', 'node', 'python'])
    expect(fetched).toEqual(['node', 'npm', 'typescript'])
    const node = built.find(({ name }) => name === 'node')
    expect(node?.uploads?.map(({ file }) => file)).toContain('/archives/node.tgz')
    expect(node?.description).toContain('Node.js node-1 LTS')
  })

  test('leaves templates alone that are current, and fetches nothing for them', async () => {
    const { run, built, fetched } = scene({ current: ['node', 'code'] })
    await run()
    expect(built.map(({ name }) => name)).toEqual(['data'])
    expect(fetched).toEqual([])
  })

  test('records why an archive could not be fetched, and continues with the next template', async () => {
    const refuses = new DormouseError('setup_failed', 'npm could not fetch node')
    const { run, built, failed } = scene({ refuses })
    await run()
    expect(failed).toEqual([['node', refuses]])
    expect(built.map(({ name }) => name)).toEqual(['code', 'data'])
  })

  test('builds without a library that the host cannot fetch, and once only', async () => {
    const all = scene()
    await all.run()
    const complete = all.built.find(({ name }) => name === 'data')
    expect(complete).toMatchObject({
      description: expect.stringContaining('polars 1 '),
      wheels: ['/wheels/polars-1.whl'],
    })
    const first = scene({ withoutPip: true })
    await first.run()
    const data = first.built.find(({ name }) => name === 'data')
    expect(data).toMatchObject({ wheels: [] })
    expect(data?.description).not.toContain('polars')
    expect(first.failed).toEqual([])
    const again = scene({ current: ['node', 'code'], withoutPip: true, builtWith: data?.description ?? '' })
    await again.run()
    expect(again.built).toEqual([])
    const withPip = scene({ current: ['node', 'code'], builtWith: data?.description ?? '' })
    await withPip.run()
    expect(withPip.built.map(({ description }) => description)).toEqual([complete?.description])
  })

  test('stops when the server ends', async () => {
    const { run, built } = scene()
    await run(AbortSignal.abort())
    expect(built).toEqual([])
  })
})
