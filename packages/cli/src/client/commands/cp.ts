import { lstat } from 'node:fs/promises'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { formatBytes, formatMs } from '../../format/amounts.ts'
import type { Call } from '../call.ts'
import { UsageError } from '../cli-error.ts'
import { type Copied, copyIn } from '../copy/copy-in.ts'
import { type CopyLocation, parseCopyLocation } from '../copy/copy-location.ts'
import { copyOut, wakeOption } from '../copy/copy-out.ts'

interface CpFlags {
  readonly user?: string
  /** False: of a sleeping sandbox, copy from its snapshot. */
  readonly wake: boolean
}

export async function cp(call: Call, from: string, to: string, { user, wake }: CpFlags): Promise<void> {
  const [source, target] = [parseCopyLocation(from), parseCopyLocation(to)]
  if (source.where === 'sandbox' && target.where === 'sandbox')
    throw new UsageError('only one side of `cp` can be in a sandbox', within(source, target))
  if (source.where === target.where || (source.where !== 'sandbox' && target.where !== 'sandbox'))
    throw new UsageError(
      'one side of `cp` must be in a sandbox',
      'Write it as SANDBOX:PATH. A local path with a colon must start with ./',
    )
  const began = performance.now()
  using progress = call.progress(`Copying ${from}`)
  const copied: Copied = { files: 0, bytes: 0 }
  const onBytes = (bytes: number) => {
    copied.bytes += bytes
    progress.update(`Copying ${from}: ${copied.files} files, ${formatBytes(copied.bytes)}`)
  }
  const options = { user, wake, onBytes, copied, signal: call.signal }
  if (source.where === 'sandbox') await out(call, source, target, options)
  else if (target.where === 'sandbox') await into(call, source, target, options)
  progress[Symbol.dispose]()
  if (target.where === 'stdio') return
  const took = formatMs(performance.now() - began)
  call.printResult(copied, '')
  call.note(
    `${copied.files} ${copied.files === 1 ? 'file' : 'files'}, ${formatBytes(copied.bytes)} in ${took}.`,
  )
}

type InSandbox = Extract<CopyLocation, { where: 'sandbox' }>
function within(source: InSandbox, target: InSandbox): string {
  return source.sandbox === target.sandbox
    ? `\`dormouse exec ${source.sandbox} -- cp -r ${source.path} ${target.path}\` copies within the sandbox.`
    : `\`dormouse cp ${source.sandbox}:${source.path} - | dormouse cp - ${target.sandbox}:${target.path}\` copies a file between them.`
}

type CopyOptions = Parameters<typeof copyIn>[3]

async function into(
  call: Call,
  source: CopyLocation,
  target: InSandbox,
  options: CopyOptions,
): Promise<void> {
  if (source.where === 'local') await lstat(source.path)
  const { files, commands } = await call.sandbox(target.sandbox)
  if (source.where === 'local') return copyIn({ files, commands }, source.path, target.path, options)
  const { user, signal, copied, onBytes } = options
  const { sizeBytes } = await files.write(
    target.path,
    Readable.toWeb(call.io.stdin) as ReadableStream<Uint8Array>,
    { user, signal, parents: false },
  )
  copied.files = 1
  onBytes(sizeBytes)
}

async function out(call: Call, source: InSandbox, target: CopyLocation, options: CopyOptions): Promise<void> {
  const { files } = await call.sandbox(source.sandbox)
  if (target.where === 'local') return copyOut(files, source.path, target.path, options)
  const { user, wake, signal } = options
  const bytes = files.stream(source.path, { user, wake: wakeOption(wake), signal })
  await pipeline(Readable.fromWeb(bytes as never), call.io.stdout, { end: false })
}
