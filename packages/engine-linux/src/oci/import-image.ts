import { createHash } from 'node:crypto'
import { mkdir, readdir, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import {
  burrowLimitsSchema,
  DormouseError,
  hasErrorCode,
  type LayerId,
  newLayerId,
  newSnapshotId,
} from '@dormouse/contracts'
import {
  type ImportedImage,
  type ImportImage,
  type ProgramSettings,
  parseImageSource,
} from '@dormouse/engine'
import { snapshotPaths } from '../host/layout.ts'
import { removeTree } from '../host/publish-directory.ts'
import { makeOwnedDirectory } from '../host/work-directory.ts'
import { PageWorker } from '../image/page-worker.ts'
import type { SnapshotEngine } from '../snapshot/snapshot-engine.ts'
import { describeSnapshot } from '../storage/describe-snapshot.ts'
import { encodeManifest, type FilesManifest, SNAPSHOT_FORMAT_VERSION } from '../storage/manifest.ts'
import { explainNoSpace, publishSnapshot, syncLayer, UNFINISHED } from '../storage/publish-snapshot.ts'
import { makePullsDirectory, removeOldPulls, UNPACKING } from '../storage/pulls-directory.ts'
import { prepareScratch } from '../template/scratch-template.ts'
import { describeImage, EMPTY_IMAGE } from './describe-image.ts'
import { makeSettingsLayer, SETTINGS_LAYER } from './image-settings.ts'
import { LayerIndex } from './layer-index.ts'
import { LayerUnpacker, type PreparedLayer } from './layer-unpacker.ts'
import { credentialsFor, pullImage } from './pull-image.ts'
import { requireSkopeo } from './skopeo.ts'

const importing = new Map<string, Promise<unknown>>()

/** Pulls an image, unless its layers are here, and publishes a snapshot of its files. On failure no snapshot is left. */
export async function importImage(engine: SnapshotEngine, request: ImportImage): Promise<ImportedImage> {
  const source = parseImageSource(request.image)
  const owner = [source.reference, credentialsFor(source, request.credentials)?.username ?? '']
  const key = createHash('sha256').update(JSON.stringify(owner)).digest('hex').slice(0, 32)
  // Two pulls of one image would write the same files. The second one finds the layers of the first.
  const before = importing.get(key)
  const work = (async () => {
    await before?.catch(() => {})
    return importOne(engine, request, key)
  })()
  importing.set(key, work)
  try {
    return await work
  } finally {
    if (importing.get(key) === work) importing.delete(key)
  }
}

async function importOne(engine: SnapshotEngine, request: ImportImage, key: string): Promise<ImportedImage> {
  const { layout } = engine.host
  const { onLine = () => {}, signal, credentials, registriesConf, network } = request
  await makePullsDirectory(layout.pullsDir)
  if (request.image === EMPTY_IMAGE.name) return importEmpty(engine, request)
  await requireSkopeo(onLine)
  await removeOldPulls(layout.pullsDir, importing)
  const index = new LayerIndex(layout)
  await index.tidy()
  const directory = join(layout.pullsDir, key)
  const source = parseImageSource(request.image)
  const findLayer = (digest: string) => index.find(digest)
  const work = await makeOwnedDirectory({ parent: layout.pullsDir, prefix: UNPACKING })
  try {
    await using unpacker = new LayerUnpacker({ index, work, request })
    const pulled = await pullImage({
      source,
      credentials,
      registriesConf,
      network,
      directory,
      maxBytes: request.maxBytes,
      findLayer,
      onLayer: (digest, archive) => unpacker.start(digest, archive),
      onLine,
      signal,
    })
    const prepared = await unpacker.finish(pulled)
    const image = describeImage(request.image, pulled)
    const { user, env, cwd } = image
    // Nothing needs the archives now. A sync of the file system would still write them to the disk.
    await removeTree(directory)
    const snapshot = await publishImage(engine, { prepared, work, request, image: { user, env, cwd } })
    return { snapshot, image }
  } catch (error) {
    const explained = explainNoSpace(error, 'The disk is full; the image was not imported.')
    // What has arrived is kept for the next try, but not where it takes the room that others need.
    if (hasErrorCode(explained, 'no_space')) await removeTree(directory)
    throw explained
  } finally {
    await removeTree(work)
  }
}

/** A snapshot without any file of an image. */
async function importEmpty(engine: SnapshotEngine, request: ImportImage): Promise<ImportedImage> {
  const work = await makeOwnedDirectory({ parent: engine.host.layout.pullsDir, prefix: UNPACKING })
  try {
    const { user, env, cwd } = EMPTY_IMAGE
    const publish = { prepared: [], work, request, image: { user, env, cwd } }
    return { snapshot: await publishImage(engine, publish), image: EMPTY_IMAGE }
  } finally {
    await removeTree(work)
  }
}

interface Publish {
  readonly prepared: readonly PreparedLayer[]
  readonly work: string
  readonly request: ImportImage
  readonly image: ProgramSettings
}

/** Gives the layers their names and the snapshot its own, while no layer is collected. */
async function publishImage(engine: SnapshotEngine, publish: Publish): Promise<ImportedImage['snapshot']> {
  const template = await prepareScratch(engine.dataDir)
  return engine.afterCollecting(async () => {
    const { layout } = engine.host
    await using worker = new PageWorker()
    const chain = await nameLayers(engine, publish, worker)
    const id = newSnapshotId()
    const manifest: FilesManifest = {
      formatVersion: SNAPSHOT_FORMAT_VERSION,
      id,
      kind: 'files',
      sandboxId: publish.request.sandboxId,
      createdAt: new Date().toISOString(),
      template: { name: template.name, hash: template.hash },
      layers: chain,
      limits: burrowLimitsSchema.parse({}),
      volumes: [],
      image: publish.image,
      bytes: { images: 0, memory: 0 },
    }
    const unfinished = snapshotPaths(join(layout.snapshotsDir, `${UNFINISHED}${id}`))
    await mkdir(unfinished.dir, { mode: 0o700 })
    await writeFile(unfinished.manifest, encodeManifest(manifest), { flag: 'wx', mode: 0o600 })
    await worker.sync([unfinished.dir])
    await publishSnapshot(unfinished.dir, layout.snapshot(id).dir)
    return describeSnapshot(manifest)
  })
}

/** Returns the chain, top first. Pre: no layer is being collected. */
async function nameLayers(
  engine: SnapshotEngine,
  { prepared, work }: Publish,
  worker: PageWorker,
): Promise<LayerId[]> {
  const { layout } = engine.host
  const index = new LayerIndex(layout)
  const settings = (await index.find(SETTINGS_LAYER)) ?? undefined
  const settingsDir = join(work, 'settings')
  if (settings === undefined) await makeSettingsLayer(settingsDir)
  const top = {
    digest: SETTINGS_LAYER,
    diffId: SETTINGS_LAYER,
    ...(settings === undefined && { directory: settingsDir }),
  }
  const chain: LayerId[] = []
  for (const layer of [...prepared, top]) {
    const known = (await index.find(layer.diffId)) ?? (await index.find(layer.digest))
    const id = known?.layer ?? (await nameLayer(layer, join(layout.layersDir), worker))
    for (const digest of new Set([layer.digest, layer.diffId]))
      await index.add(digest, { layer: id, diffId: layer.diffId })
    // A layer that comes twice hides its first appearance, and overlayfs refuses to have it twice.
    const earlier = chain.indexOf(id)
    if (earlier !== -1) chain.splice(earlier, 1)
    if ((await readdir(layout.layer(id))).length > 0) chain.push(id)
  }
  return chain.reverse()
}

async function nameLayer(
  { directory }: PreparedLayer,
  layersDir: string,
  worker: PageWorker,
): Promise<LayerId> {
  if (directory === undefined)
    throw new DormouseError('conflict', 'A layer of the image was removed meanwhile. Try again.')
  const id = newLayerId()
  await rename(directory, join(layersDir, id))
  await syncLayer(worker, join(layersDir, id))
  return id
}
