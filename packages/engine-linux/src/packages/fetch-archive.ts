import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { mkdir, rename, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { DormouseError } from '@dormouse/contracts'
import { runCommand } from '../host/run-command.ts'
import { makeOwnedDirectory, removeAbandoned } from '../host/work-directory.ts'

/** Enough for 50 MB over a slow line. */
const FETCH_TIMEOUT_MS = 600_000

export interface FetchArchive {
  /** Where fetched archives stay. */
  readonly parent: string
  readonly file: string
  /** The package, as its registry names it. */
  readonly title: string
  /** The client of the registry. */
  readonly client: string
  /** Puts the archive into the working directory. */
  readonly argv: readonly [string, ...string[]]
  readonly digest: {
    readonly algorithm: 'sha256' | 'sha512'
    readonly encoding: 'hex' | 'base64'
    readonly value: string
  }
  readonly registry: string
  readonly signal?: AbortSignal | undefined
}

/**
 * Returns the archive of a package, which is fetched once. Throws `setup_failed` when it cannot be fetched, or is not the
 * pinned one.
 */
export async function fetchArchive(fetch: FetchArchive): Promise<string> {
  const { parent } = fetch
  const file = join(parent, fetch.file)
  // Missing: not fetched yet.
  if ((await stat(file).catch(() => undefined)) !== undefined) return file
  await mkdir(parent, { recursive: true, mode: 0o711 })
  const place = { parent, prefix: '.fetching-' }
  await removeAbandoned(place)
  const work = await makeOwnedDirectory(place)
  try {
    await download(fetch, work)
    const fetched = join(work, fetch.file)
    await requireDigest(fetch, fetched)
    await rename(fetched, file)
    return file
  } finally {
    await rm(work, { recursive: true, force: true })
  }
}

async function download(
  { argv, client, title, file, registry, signal }: FetchArchive,
  into: string,
): Promise<void> {
  // In a directory without a project, whose settings would count.
  const inside = ['env', `--chdir=${into}`, ...argv] as const
  const { exitCode, ending, tail } = await runCommand({ argv: inside, signal, timeoutMs: FETCH_TIMEOUT_MS })
  const isThere = (await stat(join(into, file)).catch(() => undefined)) !== undefined
  if (exitCode === 0 && isThere) return
  throw new DormouseError('setup_failed', `${client} could not fetch ${title}: ${tail.at(-1) ?? ending}`, {
    hint: `Check that the host reaches ${registry}.`,
  })
}

async function requireDigest({ title, registry, digest }: FetchArchive, file: string): Promise<void> {
  const { algorithm, encoding, value } = digest
  const hash = createHash(algorithm)
  for await (const chunk of createReadStream(file)) hash.update(chunk)
  const found = hash.digest(encoding)
  if (found === value) return
  throw new DormouseError(
    'setup_failed',
    `${title} is not the accepted archive: it is ${algorithm}-${found}.`,
    {
      hint: `The accepted one is ${algorithm}-${value}. Check that this is ${registry} that you trust.`,
    },
  )
}
