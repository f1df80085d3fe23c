import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { ServerProcess } from '../server/server-process.ts'
import { type Entry, makeLayer } from './make-image.ts'

const TOOLS = [
  'sh',
  'cat',
  'dd',
  'echo',
  'env',
  'httpd',
  'id',
  'ls',
  'mkdir',
  'nc',
  'pwd',
  'rm',
  'sleep',
  'stat',
  'test',
]

const USERS = 'root:x:0:0::/root:/bin/sh\nweb:x:1000:1000::/srv:/bin/sh\n'

/** A static busybox: no Python, no bash, no libc. */
export const busybox: readonly Entry[] = [
  { path: 'bin' },
  { path: 'bin/busybox', content: readFileSync('/bin/busybox'), mode: 0o755 },
  ...TOOLS.map((name) => ({ path: `bin/${name}`, link: 'busybox' })),
  { path: 'etc' },
  { path: 'etc/passwd', content: USERS },
  { path: 'etc/group', content: 'root:x:0:\nweb:x:1000:\n' },
  { path: 'srv' },
]

export const busyboxLayer = makeLayer(busybox)

/** So many times 32 KiB that hardly compress. Every name has its own content. */
export function noise(name: string, pieces: number): Buffer {
  let block = createHash('sha256').update(name).digest()
  const blocks = Array.from({ length: pieces * 1_024 }, () => {
    block = createHash('sha256').update(block).digest()
    return block
  })
  return Buffer.concat(blocks)
}

/** A layer of a megabyte that hardly compresses. */
export function noiseLayer(name: string): Buffer {
  return makeLayer([{ path: name, content: noise(name, 32) }])
}

/** Compiles a C program: statically with the host's libc, or against musl. */
export function compile(source: string, ...argv: readonly [string, ...string[]]): Buffer {
  const directory = mkdtempSync(join(tmpdir(), 'dormouse-compile-'))
  try {
    writeFileSync(join(directory, 'program.c'), source)
    const [compiler, ...options] = argv
    execFileSync(compiler, [...options, '-O1', '-o', 'program', 'program.c'], {
      cwd: directory,
      stdio: 'pipe',
    })
    return readFileSync(join(directory, 'program'))
  } finally {
    rmSync(directory, { recursive: true })
  }
}

export interface Ran {
  readonly exitCode: number
  readonly stdout: string
  readonly stderr: string
}

export async function run(
  server: ServerProcess,
  { id, key, language = 'bash' }: { id: string; key: string; language?: string },
  code: string,
): Promise<Ran> {
  const { exitCode, stdout, stderr } = await server.ok(`/v1/sandboxes/${id}/run`, {
    json: { code, language },
    key,
  })
  return { exitCode, stdout, stderr }
}

/** Uploads an archive and returns the id. */
export async function upload(server: ServerProcess, key: string, archive: Buffer): Promise<string> {
  const answer = await server.fetch('/v1/uploads', { method: 'POST', body: new Uint8Array(archive), key })
  if (answer.status !== 201)
    throw new Error(`the upload failed with ${answer.status}: ${await answer.text()}`)
  return ((await answer.json()) as { id: string }).id
}
