import { existsSync } from 'node:fs'
import { readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { DormouseError, isLayerId, type LayerId } from '@dormouse/contracts'
import { z } from 'zod'
import type { Layout } from '../burrow/layout.ts'
import { startProgram } from '../host/start-program.ts'
import { RecordSum } from './record-sum.ts'

const inventorySchema = z.strictObject({ formatVersion: z.literal(1), entries: z.int(), sum: z.string() })

/** What a layer holds, without the content of its files: so many entries, and a sum over what is known of each. */
type Inventory = z.output<typeof inventorySchema>

/** Of one that is being written. */
const UNFINISHED = '.new'

/** After this a layer cannot lose a file, and no file in it its size or time, unnoticed by `findChange`. Done once for each layer. */
export async function takeInventories(
  layout: Layout,
  layers: readonly LayerId[],
  signal: AbortSignal,
): Promise<void> {
  for (const layer of ownLayers(layout, layers)) {
    const path = join(layout.inventoriesDir, layer)
    if (existsSync(path)) continue
    const inventory = await count(layout.layer(layer), signal)
    await writeFile(`${path}${UNFINISHED}`, JSON.stringify(inventory), { mode: 0o600 })
    await rename(`${path}${UNFINISHED}`, path)
  }
}

/** In words, what of these layers is not as it was when it was looked at; undefined when all is, or nobody has looked yet. */
export async function findChange(layout: Layout, layers: readonly LayerId[]): Promise<string | undefined> {
  for (const layer of ownLayers(layout, layers)) {
    const before = await findInventory(join(layout.inventoriesDir, layer))
    if (before === undefined) continue
    const now = await count(layout.layer(layer))
    if (now.entries !== before.entries)
      return `its file layer ${layer} has ${now.entries} files and directories instead of ${before.entries}`
    if (now.sum !== before.sum) return `a file in its layer ${layer} is not as it was`
  }
  return undefined
}

/** Those of layers that are gone. */
export async function removeInventories(layout: Layout): Promise<void> {
  for (const name of await readdir(layout.inventoriesDir)) {
    const layer = name.replace(UNFINISHED, '')
    const isNeeded = isLayerId(layer) && existsSync(layout.layer(layer))
    if (!isNeeded) await rm(join(layout.inventoriesDir, name), { force: true })
  }
}

/** Those of templates belong to the host. */
function ownLayers(layout: Layout, layers: readonly LayerId[]): LayerId[] {
  return layers.filter((layer) => dirname(layout.layer(layer)) === layout.layersDir)
}

async function findInventory(path: string): Promise<Inventory | undefined> {
  try {
    return inventorySchema.parse(JSON.parse(await readFile(path, 'utf8')))
  } catch {
    return undefined
  }
}

/** Whatever else the host has to do comes first. */
const GENTLY = ['nice', '-n', '19', 'ionice', '--class', 'idle'] as const
/** Kind, rights, owner and time of each, the size of files, where links point to. Any byte but NUL can be in a name. */
const OF_FILES = '%P\\0%y %m %U %G %T@ %s %l\\0'
/** How large a directory is depends on its past. */
const OF_DIRECTORIES = '%P\\0%y %m %U %G %T@\\0'

/**
 * find(1) copes with any number of names and any depth, follows no link, and keeps no list; neither does this. The sum does not depend on
 * the order in which they come.
 */
async function count(root: string, signal?: AbortSignal): Promise<Inventory> {
  signal?.throwIfAborted()
  const test = ['(', '-type', 'd', '-printf', OF_DIRECTORIES, ')', '-o', '-printf', OF_FILES] as const
  const child = startProgram({
    argv: [...GENTLY, 'find', root, '-xdev', ...test],
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  const stop = () => child.kill('SIGKILL')
  signal?.addEventListener('abort', stop, { once: true })
  try {
    const records = new RecordSum()
    child.streams[1]?.on('data', (chunk: Buffer) => records.add(chunk))
    const { exitCode } = await child.closed
    signal?.throwIfAborted()
    if (exitCode !== 0) throw new DormouseError('internal', 'A file layer could not be looked through.')
    return { formatVersion: 1, entries: records.count, sum: records.sum }
  } finally {
    signal?.removeEventListener('abort', stop)
  }
}
