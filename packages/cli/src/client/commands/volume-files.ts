import { createReadStream, createWriteStream } from 'node:fs'
import { stat } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { VolumeFiles } from 'dormouse'
import { formatBytes } from '../../format/amounts.ts'
import { formatTable } from '../../format/table.ts'
import type { Call } from '../call.ts'
import { UsageError } from '../cli-error.ts'
import { parseCopyLocation } from '../copy/copy-location.ts'

export async function listVolumeFiles(
  call: Call,
  name: string,
  path: string | undefined,
  { depth }: { depth?: number },
): Promise<void> {
  const { signal } = call
  const options = { signal, ...(depth !== undefined && { depth }) }
  const files = await call.client.volumes.files(name).list(path ?? '/', options)
  const rows = files.map((file) => [
    file.mode,
    file.type === 'file' ? formatBytes(file.sizeBytes) : file.type,
    file.modifiedAt,
    file.target === undefined ? file.path : `${file.path} -> ${file.target}`,
  ])
  call.printResult({ files }, rows.length === 0 ? '' : formatTable(rows))
}

export async function removeVolumeFiles(
  call: Call,
  name: string,
  paths: readonly string[],
  { recursive }: { recursive?: boolean },
): Promise<void> {
  const files = call.client.volumes.files(name)
  for (const path of paths) await files.remove(path, { recursive: recursive === true, signal: call.signal })
  call.printResult({ deleted: paths }, paths.map((path) => `${path}\n`).join(''))
}

/** One side is `VOLUME:PATH`, the other a local path or `-`. */
export async function copyVolumeFiles(call: Call, from: string, to: string): Promise<void> {
  const [source, target] = [parseCopyLocation(from), parseCopyLocation(to)]
  if ((source.where === 'sandbox') === (target.where === 'sandbox'))
    throw new UsageError(
      'one side of `volume cp` must be in a volume',
      'Write it as VOLUME:PATH. A local path with a colon must start with ./',
    )
  using _progress = call.progress(`Copying ${from}`)
  const { signal } = call
  if (target.where === 'sandbox') {
    const files = call.client.volumes.files(target.sandbox)
    if (source.where === 'local') await upload(files, source.path, target.path, signal)
    else
      await files.write(target.path, Readable.toWeb(call.io.stdin) as ReadableStream<Uint8Array>, { signal })
  } else if (source.where === 'sandbox') {
    const files = call.client.volumes.files(source.sandbox)
    if (target.where === 'local') await download(files, source.path, target.path, signal)
    else await send(files, source.path, call.io.stdout, { signal, end: false })
  }
  if (target.where !== 'stdio') call.printResult({ from, to }, '')
}

async function upload(files: VolumeFiles, local: string, path: string, signal: AbortSignal): Promise<void> {
  if ((await stat(local)).isDirectory()) return files.uploadDir(local, path, { signal })
  const into = path.endsWith('/') ? `${path}${basename(local)}` : path
  const content = Readable.toWeb(createReadStream(local)) as ReadableStream<Uint8Array>
  await files.write(into, content, { signal })
}

async function download(files: VolumeFiles, path: string, local: string, signal: AbortSignal): Promise<void> {
  const { type, name } = await files.stat(path, { signal })
  if (type === 'directory') return files.downloadDir(path, local, { signal })
  const isDirectory = await stat(local).then(
    (found) => found.isDirectory(),
    () => false,
  )
  await send(files, path, createWriteStream(isDirectory ? join(local, name) : local), { signal, end: true })
}

async function send(
  files: VolumeFiles,
  path: string,
  into: NodeJS.WritableStream,
  { signal, end }: { signal: AbortSignal; end: boolean },
): Promise<void> {
  await pipeline(Readable.fromWeb(files.stream(path, { signal }) as never), into, { end })
}
