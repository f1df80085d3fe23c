import { createHash } from 'node:crypto'
import { constants } from 'node:fs'
import { chown, mkdir, open, rm, truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { DormouseError } from '@dormouse/contracts'
import type { ImageCredentials, ImageNetwork, ImageSource } from '@dormouse/engine'
import { copyIn, copySource, isFullDisk, sourceIn } from './copy-source.ts'
import {
  type ImageConfigFile,
  type ImageManifest,
  imageConfigSchema,
  imageListSchema,
  imageManifestSchema,
} from './image-config.ts'
import type { KnownLayer } from './layer-index.ts'
import { openPullNetwork } from './pull-network.ts'
import { reportProgress } from './report-progress.ts'
import { PULL_UID, type RunSkopeo, runSkopeo } from './skopeo.ts'
import { watchBlobs } from './watch-blobs.ts'

export interface PullImage {
  readonly source: ImageSource
  readonly credentials?: readonly ImageCredentials[] | undefined
  readonly registriesConf?: string | undefined
  readonly network?: ImageNetwork | undefined
  /** Kept after a failure: the next pull of the same image continues with the layers that have arrived. */
  readonly directory: string
  /** What an archive may unpack to. */
  readonly maxBytes: number
  /** Layers that this host has are not pulled. */
  readonly findLayer: (digest: string) => Promise<KnownLayer | undefined>
  /** Called when a layer has arrived that `findLayer` did not know, while others may still be on their way. */
  readonly onLayer: (digest: string, archive: string) => void
  readonly onLine: (line: string) => void
  readonly signal?: AbortSignal | undefined
}

export interface PulledImage {
  readonly manifest: ImageManifest
  readonly config: ImageConfigFile
  readonly digest: string
  /** The archive of a layer. Layers that `findLayer` knew have none. */
  readonly archive: (digest: string) => string
}

/** Manifests and configurations of real images have some kilobytes. */
const JSON_MAX_BYTES = 4 * 1024 ** 2
const RETRIES = '2'
const CUTS_MAX = 2
const AFTER_CUT_MS = 1_000
/** As Go says it. */
const CUT = /unexpected EOF|connection reset by peer|broken pipe|http2: .*closed|stream error/
const NAME_IN_LAYOUT = 'image'

/** The credentials of the registry that an image comes from. */
export function credentialsFor(
  { registry }: ImageSource,
  credentials: readonly ImageCredentials[] = [],
): ImageCredentials | undefined {
  return credentials.find((one) => one.registry === registry?.toLowerCase())
}

export async function pullImage(pull: PullImage): Promise<PulledImage> {
  const { directory, source, onLine } = pull
  const layout = join(directory, 'layout')
  for (const path of [directory, layout, join(layout, 'blobs'), join(layout, 'blobs/sha256')])
    await makeDirectory(path)
  const auth = await writeCredentials(pull)
  // Where the library of skopeo looks first.
  for (const path of ['.config', '.config/containers']) await makeDirectory(join(directory, path))
  if (pull.registriesConf !== undefined)
    await copyIn(pull.registriesConf, join(directory, '.config/containers/registries.conf'))
  const copied = source.transport === 'docker' ? source.reference : await copySource(pull)
  await using network = pull.network && (await openPullNetwork(pull.network))
  const skopeo = (args: readonly string[], onLine: RunSkopeo['onLine'] = () => {}) =>
    callSkopeo(pull, [...args.slice(0, 1), ...auth, ...args.slice(1)], { onLine, network })
  try {
    const found = source.transport === 'docker' ? await findImage(pull, layout, skopeo) : undefined
    // An index of an earlier attempt could name another image.
    await rm(join(layout, 'index.json'), { force: true })
    const options = ['--retry-times', RETRIES, '--dest-oci-accept-uncompressed-layers']
    const layers = found?.missing ?? new Map<string, number>()
    using _watch = watchLayers(pull, layout, layers)
    using _progress = layers.size > 0 ? reportProgress({ layout, layers, onLine }) : undefined
    const from = found?.reference ?? copied
    // What ends skopeo is in the error.
    const onProgress = (line: string) => (line.includes('level=fatal') ? undefined : onLine(line))
    const copy = () => skopeo(['copy', ...options, from, `oci:${layout}:${NAME_IN_LAYOUT}`], onProgress)
    await retryCuts(copy, pull)
    return await readLayout(layout)
  } finally {
    await rm(join(directory, 'auth.json'), { force: true })
  }
}

/** skopeo 1.9 retries when it cannot connect, but not when a connection is cut. Layers that have arrived stay. */
async function retryCuts(
  copy: () => Promise<unknown>,
  { onLine, signal }: Pick<PullImage, 'onLine' | 'signal'>,
): Promise<void> {
  for (let cuts = 0; ; ) {
    try {
      await copy()
      return
    } catch (error) {
      cuts += 1
      const isCut = error instanceof DormouseError && CUT.test(error.message)
      if (!isCut || cuts > CUTS_MAX || signal?.aborted === true) throw error
      onLine('The connection to the registry was cut. Pulling what is missing again.')
      await sleep(AFTER_CUT_MS, undefined, { signal })
    }
  }
}

function watchLayers(
  { onLayer }: Pick<PullImage, 'onLayer'>,
  layout: string,
  missing: ReadonlyMap<string, number>,
): Disposable {
  return watchBlobs(join(layout, 'blobs/sha256'), (digest) => {
    if (missing.has(digest)) onLayer(digest, blobPath(layout, digest))
  })
}

/** Finds the image for this machine, and puts placeholders where skopeo would put layers that are here already. */
async function findImage(
  { source, findLayer }: PullImage,
  layout: string,
  skopeo: (args: readonly string[]) => Promise<string>,
): Promise<{ reference: string; missing: ReadonlyMap<string, number> }> {
  let reference = source.reference
  let text = await skopeo(['inspect', '--raw', reference])
  const list = imageListSchema.safeParse(parseJson(text))
  if (list.success) {
    const chosen = choosePlatform(list.data, reference)
    reference = withDigest(reference, chosen)
    text = await skopeo(['inspect', '--raw', reference])
  }
  const { layers } = parseAs(imageManifestSchema, parseJson(text), 'manifest')
  const missing = new Map<string, number>()
  for (const { digest, size } of layers) {
    if ((await findLayer(digest)) === undefined) {
      missing.set(digest, size)
      continue
    }
    // skopeo compares only the size of a blob that it finds.
    const path = blobPath(layout, digest)
    await writeFile(path, '')
    await truncate(path, size)
  }
  return { reference, missing }
}

const ARCHITECTURES: Readonly<Record<string, string>> = { x64: 'amd64', arm64: 'arm64' }

function choosePlatform({ manifests }: { manifests: readonly ListedManifest[] }, reference: string): string {
  const wanted = ARCHITECTURES[process.arch] ?? process.arch
  const found = manifests.find(
    ({ platform }) =>
      platform?.os === 'linux' && platform.architecture === wanted && platform.variant !== 'v7',
  )
  if (found !== undefined) return found.digest
  const offered = manifests.map(({ platform }) => `${platform?.os}/${platform?.architecture}`).join(', ')
  throw new DormouseError(
    'setup_failed',
    `${reference} has no image for linux/${wanted}, only for ${offered}.`,
  )
}

interface ListedManifest {
  readonly digest: string
  readonly platform?:
    | { os?: string | undefined; architecture?: string | undefined; variant?: string | undefined }
    | null
    | undefined
}

function withDigest(reference: string, digest: string): string {
  return `${reference.replace(/@sha256:[0-9a-f]+$/, '').replace(/:[^:/]+$/, '')}@${digest}`
}

async function callSkopeo(
  pull: PullImage,
  args: readonly string[],
  { onLine, network }: Pick<RunSkopeo, 'onLine' | 'network'>,
): Promise<string> {
  const { directory: home, signal, source } = pull
  const result = await runSkopeo({ args, home, network, signal, ...(onLine && { onLine }) })
  if (result.exitCode === 0) return result.stdout
  const code = isFullDisk(result.tail) ? 'no_space' : 'setup_failed'
  const why = explain(result.tail).replaceAll(`${source.transport}:${sourceIn(home)}`, source.reference)
  // Many registries refuse a name that does not exist as one that is private.
  const isRefused = /unauthorized|authentication required|denied/i.test(why)
  const advice = isRefused ? '. Give a login (`registryAuth`, or `--login`), and check the name' : ''
  throw new DormouseError(code, `${source.reference} cannot be pulled: ${why}${advice}`)
}

/** The message of skopeo's last line, `time="…" level=fatal msg="…"`. */
function explain(tail: readonly string[]): string {
  const last =
    tail.findLast((line) => line.includes('level=fatal')) ?? tail.at(-1) ?? 'skopeo ended without a reason'
  const message = /msg="(?<message>(?:[^"\\]|\\.)*)"/.exec(last)?.groups?.['message'] ?? last
  // skopeo calls every problem with the manifest one of parsing.
  const words = message.replaceAll('\\"', '"').replace(/^Error parsing image name "[^"]*": /, '')
  return words.slice(0, 600)
}

/** The login of this registry. A file, because arguments are visible to every process of the host. */
async function writeCredentials({ credentials, source, directory }: PullImage): Promise<string[]> {
  const login = credentialsFor(source, credentials)
  if (login === undefined || source.registry === undefined) return []
  const auth = Buffer.from(`${login.username}:${login.password}`).toString('base64')
  const path = join(directory, 'auth.json')
  await rm(path, { force: true })
  await writeFile(path, JSON.stringify({ auths: { [source.registry]: { auth } } }), {
    mode: 0o600,
    flag: 'wx',
  })
  await chown(path, PULL_UID, PULL_UID)
  return ['--authfile', path]
}

async function readLayout(layout: string): Promise<PulledImage> {
  const index = parseAs(imageListSchema, parseJson(await readSmall(join(layout, 'index.json'))), 'index')
  const digest = index.manifests.at(-1)?.digest
  if (digest === undefined) throw damaged('its index is empty')
  const manifest = parseAs(imageManifestSchema, parseJson(await readBlob(layout, digest)), 'manifest')
  const config = parseAs(
    imageConfigSchema,
    parseJson(await readBlob(layout, manifest.config.digest)),
    'configuration',
  )
  if (config.rootfs.diff_ids.length !== manifest.layers.length)
    throw damaged('its manifest and its configuration list different layers')
  return { manifest, config, digest, archive: (layer) => blobPath(layout, layer) }
}

async function readBlob(layout: string, digest: string): Promise<string> {
  const text = await readSmall(blobPath(layout, digest))
  if (`sha256:${createHash('sha256').update(text).digest('hex')}` !== digest)
    throw damaged(`${digest} has other content than its digest says`)
  return text
}

/** skopeo wrote these files without privileges, so this process follows no link among them. */
async function readSmall(path: string): Promise<string> {
  await using file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
  const { size } = await file.stat()
  if (size > JSON_MAX_BYTES) throw damaged(`a manifest has ${size} bytes`)
  return await file.readFile('utf8')
}

function blobPath(layout: string, digest: string): string {
  return join(layout, 'blobs', 'sha256', digest.slice('sha256:'.length))
}

async function makeDirectory(path: string): Promise<void> {
  await mkdir(path, { recursive: true, mode: 0o700 })
  await chown(path, PULL_UID, PULL_UID)
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (cause) {
    throw damaged('a manifest is not JSON', cause)
  }
}

function parseAs<Output>(
  schema: { safeParse(value: unknown): { success: true; data: Output } | { success: false; error: Error } },
  value: unknown,
  what: string,
): Output {
  const parsed = schema.safeParse(value)
  if (parsed.success) return parsed.data
  throw damaged(`its ${what} cannot be understood`, parsed.error)
}

function damaged(why: string, cause?: unknown): DormouseError {
  return new DormouseError('setup_failed', `The image is damaged: ${why}.`, { cause })
}
