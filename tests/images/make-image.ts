import { execFileSync, spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { mkdirSync, openSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'

const MEBIBYTE = 1024 ** 2

/** One entry of a layer. Without `content` or `link` it is a directory. */
export interface Entry {
  readonly path: string
  readonly content?: string | Buffer
  /** The target of a symbolic link; with `type: '1'` of a hard link. */
  readonly link?: string
  /** As in a tar header: '3' is a character device. */
  readonly type?: string
  readonly mode?: number
  readonly uid?: number
  readonly gid?: number
  /** Lets a header lie about the size. */
  readonly size?: number
}

export interface ImageConfig {
  readonly Env?: readonly string[]
  readonly WorkingDir?: string
  readonly User?: string
  readonly Entrypoint?: readonly string[]
  readonly Cmd?: readonly string[]
  readonly Shell?: readonly string[]
  readonly Healthcheck?: { readonly Test: readonly string[] }
}

/** A tar archive with exactly these entries, however strange. */
export function makeLayer(entries: readonly Entry[]): Buffer {
  const blocks = entries.flatMap((entry) => [header(entry), padded(Buffer.from(entry.content ?? ''))])
  return Buffer.concat([...blocks, Buffer.alloc(1024)])
}

function header(entry: Entry): Buffer {
  const { path, content, link, mode, uid = 0, gid = 0 } = entry
  const type = entry.type ?? (link !== undefined ? '2' : content === undefined ? '5' : '0')
  const block = Buffer.alloc(512)
  const octal = (value: number, at: number, length: number) =>
    block.write(`${value.toString(8).padStart(length - 1, '0')}\0`, at, 'latin1')
  block.write(path, 0, 100)
  octal(mode ?? (type === '5' ? 0o755 : 0o644), 100, 8)
  octal(uid, 108, 8)
  octal(gid, 116, 8)
  octal(entry.size ?? Buffer.byteLength(content ?? ''), 124, 12)
  octal(1_700_000_000, 136, 12)
  block.write('        ', 148)
  block.write(type, 156)
  block.write(link ?? '', 157, 100)
  block.write('ustar\x0000', 257, 'latin1')
  octal(1, 329, 8)
  octal(3, 337, 8)
  octal(
    block.reduce((sum, byte) => sum + byte, 0),
    148,
    7,
  )
  return block
}

function padded(content: Buffer): Buffer {
  return Buffer.concat([content, Buffer.alloc((512 - (content.length % 512)) % 512)])
}

const MANIFEST = 'application/vnd.oci.image.manifest.v1+json'
const INDEX = 'application/vnd.oci.image.index.v1+json'

export interface LayoutOptions {
  /** Lets the configuration lie about the layers. */
  readonly diffIds?: readonly string[]
  readonly compression?: 'gzip' | 'zstd'
  /** Layers are compressed already. `diffIds` are those of their content. */
  readonly isCompressed?: boolean
}

const COMPRESS = {
  gzip: (layer: Buffer) => gzipSync(layer, { level: 1 }),
  zstd: (layer: Buffer) => execFileSync('zstd', ['-c'], { input: layer, maxBuffer: 1e9 }),
}

export interface LargeFile {
  readonly path: string
  /** A multiple of a mebibyte. All of it is zeros but the last byte. */
  readonly bytes: number
}

/** A layer of one large file, compressed, as a file at `to`. Never all of it is in memory. Returns its diff id. */
export async function writeLargeLayer(to: string, { path, bytes }: LargeFile): Promise<string> {
  const hash = createHash('sha256')
  const pack = spawn('zstd', ['-q', '-c', '-T1'], { stdio: ['pipe', openSync(to, 'w'), 'inherit'] })
  const write = async (chunk: Buffer) => {
    hash.update(chunk)
    if (!pack.stdin.write(chunk)) await once(pack.stdin, 'drain')
  }
  await write(header({ path, content: '', size: bytes }))
  const zeros = Buffer.alloc(MEBIBYTE)
  for (let at = MEBIBYTE; at < bytes; at += MEBIBYTE) await write(zeros)
  const last = Buffer.alloc(MEBIBYTE)
  last.write('x', MEBIBYTE - 1)
  await write(last)
  await write(Buffer.alloc(1024))
  const ended = once(pack, 'exit')
  pack.stdin.end()
  await ended
  return `sha256:${hash.digest('hex')}`
}

/** Writes an OCI layout. */
export function writeLayout(
  directory: string,
  layers: readonly Buffer[],
  config: ImageConfig = {},
  { diffIds = layers.map(digestOf), compression = 'gzip', isCompressed = false }: LayoutOptions = {},
): void {
  const put = blobsIn(directory)
  const blobs = layers.map((layer) =>
    put(
      isCompressed ? layer : COMPRESS[compression](layer),
      `application/vnd.oci.image.layer.v1.tar+${compression}`,
    ),
  )
  const platform = { os: 'linux', architecture: ARCHITECTURE }
  finishLayout(directory, [putManifest(put, blobs, { platform, diffIds, config })])
}

const ARCHITECTURE = process.arch === 'x64' ? 'amd64' : 'arm64'
const OTHER_ARCHITECTURE = process.arch === 'x64' ? 'arm64' : 'amd64'

/**
 * Writes an OCI layout of an image for another machine, and for this one unless `own` is missing, each with an
 * attestation, as buildx writes it. An index of its own lists the manifests; with `isFlat` that of the layout does.
 */
export function writeIndex(
  directory: string,
  images: { readonly own?: readonly Buffer[]; readonly other: readonly Buffer[] },
  { config = {}, isFlat = false }: { config?: ImageConfig; isFlat?: boolean } = {},
): void {
  const put = blobsIn(directory)
  const platforms = [
    [OTHER_ARCHITECTURE, images.other],
    ...(images.own === undefined ? [] : [[ARCHITECTURE, images.own] as const]),
  ] as const
  const manifests = platforms.map(([architecture, layers]) => {
    const blobs = layers.map((layer) => put(layer, 'application/vnd.oci.image.layer.v1.tar'))
    const platform = { os: 'linux', architecture }
    return { ...putManifest(put, blobs, { platform, diffIds: layers.map(digestOf), config }), platform }
  })
  const attestations = manifests.map(({ digest }) => {
    const statement = Buffer.from(
      JSON.stringify({ predicateType: 'https://slsa.dev/provenance/v0.2', digest }),
    )
    const platform = { os: 'unknown', architecture: 'unknown' }
    const blobs = [put(statement, 'application/vnd.in-toto+json')]
    return {
      ...putManifest(put, blobs, { platform, diffIds: [digestOf(statement)], config: {} }),
      platform,
      annotations: {
        'vnd.docker.reference.type': 'attestation-manifest',
        'vnd.docker.reference.digest': digest,
      },
    }
  })
  // The order of an index says nothing: here what fits comes last.
  const all = [...attestations, ...manifests]
  const index = Buffer.from(JSON.stringify({ schemaVersion: 2, mediaType: INDEX, manifests: all }))
  finishLayout(directory, isFlat ? all : [put(index, INDEX)])
}

interface Descriptor {
  readonly mediaType: string
  readonly digest: string
  readonly size: number
}

type Put = (content: Buffer, mediaType: string) => Descriptor

function blobsIn(directory: string): Put {
  mkdirSync(join(directory, 'blobs/sha256'), { recursive: true })
  return (content, mediaType) => {
    const digest = digestOf(content)
    writeFileSync(join(directory, 'blobs/sha256', digest.slice(7)), content)
    return { mediaType, digest, size: content.length }
  }
}

interface Manifest {
  readonly platform: { readonly os: string; readonly architecture: string }
  readonly diffIds: readonly string[]
  readonly config: ImageConfig
}

function putManifest(put: Put, layers: readonly Descriptor[], image: Manifest): Descriptor {
  const { platform, diffIds, config } = image
  const rootfs = { type: 'layers', diff_ids: diffIds }
  const configuration = Buffer.from(JSON.stringify({ ...platform, config, rootfs }))
  const manifest = {
    schemaVersion: 2,
    mediaType: MANIFEST,
    config: put(configuration, 'application/vnd.oci.image.config.v1+json'),
    layers,
  }
  return put(Buffer.from(JSON.stringify(manifest)), MANIFEST)
}

function finishLayout(directory: string, manifests: readonly Descriptor[]): void {
  writeFileSync(join(directory, 'index.json'), JSON.stringify({ schemaVersion: 2, manifests }))
  writeFileSync(join(directory, 'oci-layout'), '{"imageLayoutVersion":"1.0.0"}')
}

export function digestOf(content: Buffer): string {
  return `sha256:${createHash('sha256').update(content).digest('hex')}`
}
