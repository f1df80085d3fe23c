import { lstat } from 'node:fs/promises'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { formatBytes, formatMs } from '../../format/amounts.ts'
import type { Call } from '../call.ts'
import { type Copied, copyIn } from '../copy/copy-in.ts'
import { copyOut } from '../copy/copy-out.ts'
import { type Place, parsePlace } from '../copy/place.ts'
import { UsageProblem } from '../problem.ts'

export async function cp(call: Call, from: string, to: string, { user }: { user?: string }): Promise<void> {
  const [source, target] = [parsePlace(from), parsePlace(to)]
  if (source.where === 'sandbox' && target.where === 'sandbox')
    throw new UsageProblem('only one side of `cp` can be in a sandbox', within(source, target))
  if (source.where === target.where || (source.where !== 'sandbox' && target.where !== 'sandbox'))
    throw new UsageProblem(
      'one side of `cp` has to be in a sandbox',
      'Give it as SANDBOX:PATH. A local path with a colon begins with ./',
    )
  const began = performance.now()
  using progress = call.progress(`Copying ${from}`)
  const copied: Copied = { files: 0, bytes: 0 }
  const onBytes = (bytes: number) => {
    copied.bytes += bytes
    progress.update(`Copying ${from}: ${copied.files} files, ${formatBytes(copied.bytes)}`)
  }
  const how = { user, onBytes, copied, signal: call.signal }
  if (source.where === 'sandbox') await out(call, source, target, how)
  else if (target.where === 'sandbox') await into(call, source, target, how)
  progress[Symbol.dispose]()
  if (target.where === 'stdio') return
  const took = formatMs(performance.now() - began)
  call.answer(copied, '')
  call.note(
    `${copied.files} ${copied.files === 1 ? 'file' : 'files'}, ${formatBytes(copied.bytes)} in ${took}.`,
  )
}

type InSandbox = Extract<Place, { where: 'sandbox' }>
function within(source: InSandbox, target: InSandbox): string {
  return source.sandbox === target.sandbox
    ? `\`dormouse exec ${source.sandbox} -- cp -r ${source.path} ${target.path}\` copies inside of it.`
    : `\`dormouse cp ${source.sandbox}:${source.path} - | dormouse cp - ${target.sandbox}:${target.path}\` passes a file on.`
}

type How = Parameters<typeof copyIn>[3]

async function into(call: Call, source: Place, target: InSandbox, how: How): Promise<void> {
  if (source.where === 'local') await lstat(source.path)
  const { files, commands } = await call.sandbox(target.sandbox)
  if (source.where === 'local') return copyIn({ files, commands }, source.path, target.path, how)
  const { user, signal, copied, onBytes } = how
  const { sizeBytes } = await files.write(
    target.path,
    Readable.toWeb(call.io.stdin) as ReadableStream<Uint8Array>,
    { user, signal },
  )
  copied.files = 1
  onBytes(sizeBytes)
}

async function out(call: Call, source: InSandbox, target: Place, how: How): Promise<void> {
  const { files } = await call.sandbox(source.sandbox)
  if (target.where === 'local') return copyOut(files, source.path, target.path, how)
  const { user, signal } = how
  await pipeline(Readable.fromWeb(files.stream(source.path, { user, signal }) as never), call.io.stdout, {
    end: false,
  })
}
