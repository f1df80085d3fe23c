import { existsSync } from 'node:fs'
import { readdir, rename, rm } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { isBurrowId } from '@dormouse/contracts'
import type { FetchedBases } from '@dormouse/engine'
import { findRecord } from '../burrow/burrow-record.ts'
import { fetchedToolsDir } from '../guest-tools.ts'
import type { Layout } from '../host/layout.ts'
import { runCommandOrFail } from '../host/run-command.ts'
import { syncDirectory } from '../host/sync-files.ts'
import { makeOwnedDirectory, removeAbandoned } from '../host/work-directory.ts'
import { hashOfBuild } from '../template/template-build.ts'
import { listBuilds } from '../template/template-store.ts'
import { baseOfTemplate, baseOfTools } from './base-keys.ts'
import type { SnapshotEngine } from './snapshot-engine.ts'

const REMOVING = '.removing-'

/** What of an engine this looks at. */
type Disk = Pick<SnapshotEngine, 'dataDir' | 'store'> & { readonly host: { readonly layout: Layout } }

interface FetchedBase {
  readonly key: string
  readonly directory: string
}

/**
 * The bases that this host has fetched. Undefined when other servers have the same templates: their snapshots are not
 * known here.
 */
export function fetchedBases(engine: Disk): FetchedBases | undefined {
  const { dataDir, host } = engine
  if (dirname(host.layout.burrowsDir) !== dirname(host.layout.templatesDir)) return undefined
  return {
    async unused() {
      const needed = await findNeeded(engine)
      if (needed === undefined) return []
      const unused = (await listFetched(dataDir)).filter(({ key }) => !needed.has(key))
      return await Promise.all(
        unused.map(async ({ key, directory }) => ({ key, bytes: await bytesOf(directory) })),
      )
    },
    async remove(key) {
      const found = (await listFetched(dataDir)).find((base) => base.key === key)
      if (found === undefined || (await findNeeded(engine))?.has(key) !== false) return false
      await removeBase(found.directory)
      return true
    },
    async removeUnfinished() {
      for (const parent of await parentsOf(dataDir)) await removeAbandoned({ parent, prefix: REMOVING })
    },
  }
}

/** The keys that snapshots and burrows need. Undefined when one of them cannot be read: it may need any. */
async function findNeeded({ dataDir, store, host }: Disk): Promise<Set<string> | undefined> {
  const needed = new Set<string>()
  const builds = await listBuilds(dataDir)
  const need = (template: { name: string; hash: string }, tools: string | undefined) => {
    const build = builds.find(({ name, hash }) => name === template.name && hash === template.hash)
    if (build !== undefined) needed.add(keyOfBuild(build))
    if (tools !== undefined) needed.add(baseOfTools(tools))
  }
  // Burrows before and after: one that sleeps becomes a snapshot meanwhile, and one that wakes is made from one.
  if (!(await needForBurrows(host.layout, need))) return undefined
  const ids = await store.ids()
  const manifests = await store.list()
  const isKnown = new Set(manifests.map(({ id }) => id))
  if (ids.some((id) => !isKnown.has(id) && existsSync(host.layout.snapshot(id).dir))) return undefined
  for (const manifest of manifests)
    need(manifest.template, manifest.kind === 'full' ? manifest.tools : undefined)
  return (await needForBurrows(host.layout, need)) ? needed : undefined
}

async function needForBurrows(
  layout: Layout,
  need: (template: { name: string; hash: string }, tools: string) => void,
): Promise<boolean> {
  for (const name of (await readdir(layout.burrowsDir)).filter(isBurrowId)) {
    const { dir, record: path, spareMark } = layout.burrow(name)
    const record = await findRecord(path).catch(() => undefined)
    // It is being made, or a later version has made it.
    if (record === undefined && existsSync(dir) && !existsSync(spareMark)) return false
    if (record !== undefined) need({ name: record.template, hash: record.templateHash }, record.tools)
  }
  return true
}

async function listFetched(dataDir: string): Promise<FetchedBase[]> {
  const builds = (await listBuilds(dataDir)).filter(({ hash }) => hashOfBuild(hash) !== hash)
  const tools = await readdir(dirname(fetchedToolsDir(dataDir, 'any'))).catch(() => [])
  return [
    ...builds.map((build) => ({ key: keyOfBuild(build), directory: dirname(build.rootfs) })),
    ...tools
      .filter((name) => !name.startsWith('.'))
      .map((name) => ({ key: baseOfTools(name), directory: fetchedToolsDir(dataDir, name) })),
  ]
}

function keyOfBuild({ name, hash, manifest }: Awaited<ReturnType<typeof listBuilds>>[number]): string {
  return baseOfTemplate({ name, hash: hashOfBuild(hash), builtAt: manifest.createdAt })
}

/** In one step it is not a base any more. What a server that ends leaves of it, the next one removes. */
async function removeBase(directory: string): Promise<void> {
  const parent = dirname(directory)
  const work = await makeOwnedDirectory({ parent, prefix: REMOVING })
  await rename(directory, join(work, basename(directory)))
  await syncDirectory(parent)
  await rm(work, { recursive: true, force: true })
}

async function parentsOf(dataDir: string): Promise<string[]> {
  const templates = join(dataDir, 'templates')
  const names = await readdir(templates).catch(() => [])
  return [...names.map((name) => join(templates, name)), dirname(fetchedToolsDir(dataDir, 'any'))]
}

async function bytesOf(directory: string): Promise<number> {
  const argv = ['du', '--summarize', '--block-size=1', '--', directory] as const
  const { stdout } = await runCommandOrFail({ argv }, 'measuring what snapshots stand on')
  return Number.parseInt(stdout, 10)
}
