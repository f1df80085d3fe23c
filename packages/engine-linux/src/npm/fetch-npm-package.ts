import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { mkdir, readdir, rename, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { DormouseError } from '@dormouse/contracts'
import { runCommand } from '../host/run-command.ts'
import { makeOwnedDirectory, removeAbandoned } from '../host/work-directory.ts'
import type { NpmPin } from './npm-pins.ts'

/** Enough for 50 MB over a slow line. */
const FETCH_TIMEOUT_MS = 600_000

export interface FetchNpmPackage {
  readonly dataDir: string
  readonly pin: NpmPin
  readonly signal?: AbortSignal | undefined
}

/**
 * Returns the archive of a package, which is fetched once with the host's npm: it knows the host's registry and whom to
 * trust. Throws `setup_failed` when it cannot be fetched, or is not the pinned one.
 */
export async function fetchNpmPackage({ dataDir, pin, signal }: FetchNpmPackage): Promise<string> {
  const parent = join(dataDir, 'tools', 'npm')
  const file = join(parent, `${pin.name}-${pin.version}.tgz`)
  // Missing: not fetched yet.
  if ((await stat(file).catch(() => undefined)) !== undefined) return file
  await mkdir(parent, { recursive: true, mode: 0o711 })
  const place = { parent, prefix: '.fetching-' }
  await removeAbandoned(place)
  const work = await makeOwnedDirectory(place)
  try {
    const packed = await pack(pin, work, signal)
    await requireIntegrity(pin, packed)
    await rename(packed, file)
    return file
  } finally {
    await rm(work, { recursive: true, force: true })
  }
}

async function pack(pin: NpmPin, into: string, signal: AbortSignal | undefined): Promise<string> {
  const spec = `${pin.name}@${pin.version}`
  // In a directory without a project, whose settings would count.
  const argv = ['env', `--chdir=${into}`, 'npm', 'pack', '--silent', '--ignore-scripts', spec] as const
  const { exitCode, ending, tail } = await runCommand({ argv, signal, timeoutMs: FETCH_TIMEOUT_MS })
  const [name] = (await readdir(into)).filter((one) => one.endsWith('.tgz'))
  if (exitCode === 0 && name !== undefined) return join(into, name)
  throw new DormouseError('setup_failed', `npm could not fetch ${spec}: ${tail.at(-1) ?? ending}`, {
    hint: 'Check that the host reaches an npm registry.',
  })
}

async function requireIntegrity({ name, version, integrity }: NpmPin, file: string): Promise<void> {
  const hash = createHash('sha512')
  for await (const chunk of createReadStream(file)) hash.update(chunk)
  const found = `sha512-${hash.digest('base64')}`
  if (found === integrity) return
  throw new DormouseError('setup_failed', `${name}@${version} is not the accepted archive: it is ${found}.`, {
    hint: `The accepted one is ${integrity}. Check the npm registry that the host uses.`,
  })
}
