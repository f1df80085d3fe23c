import { execFileSync } from 'node:child_process'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { buildTemplate } from '../server/build-template.ts'
import { ServerProcess } from '../server/server-process.ts'
import { digestOf, type Entry, makeLayer, writeLayout } from './make-image.ts'
import { Registry } from './registry.ts'
import { busybox, busyboxLayer, compile, run, upload } from './test-images.ts'

/** Every template is started once, which takes long on a busy machine. */
const MINUTES = 300_000
vi.setConfig({ testTimeout: MINUTES, hookTimeout: MINUTES })

let registry: Registry
let server: ServerProcess
let tenant: string
let scratch: string
beforeAll(async () => {
  registry = await Registry.start()
  scratch = mkdtempSync(join(tmpdir(), 'dormouse-images-'))
  server = await ServerProcess.start({
    images: { registriesConf: registry.conf },
    builds: { atOnce: 8, memoryBytes: 512 * 1024 ** 2, diskBytes: 64 * 1024 ** 2 },
  })
  tenant = (await server.ok('/v1/keys', { json: { name: 'tenant', scopes: ['run', 'read'] } })).key
})
afterAll(async () => {
  await server?.cleanUp()
  await registry?.cleanUp()
  if (scratch !== undefined) rmSync(scratch, { recursive: true })
})

const build = (template: { name: string; [field: string]: unknown }, key = tenant) =>
  buildTemplate(server, template, key)

async function create(template: string): Promise<string> {
  return (await server.ok('/v1/sandboxes', { json: { template }, key: tenant })).id
}

const sh = (id: string, code: string) => run(server, { id, key: tenant }, code)
const python = (id: string, code: string) => run(server, { id, key: tenant, language: 'python' }, code)

describe('an image without Python', () => {
  let id: string
  beforeAll(async () => {
    const first = makeLayer([
      ...busybox,
      { path: 'srv/old', content: 'old\n' },
      { path: 'srv/gone', content: 'gone\n' },
      { path: 'srv/opaque' },
      { path: 'srv/opaque/below', content: 'below\n' },
    ])
    const second = makeLayer([
      { path: 'srv' },
      { path: 'srv/.wh.gone', content: '' },
      { path: 'srv/old', content: 'new\n' },
      { path: 'srv/opaque' },
      { path: 'srv/opaque/.wh..wh..opq', content: '' },
      { path: 'srv/opaque/above', content: 'above\n' },
    ])
    const image = registry.push('small:1', [first, second], {
      Env: ['PATH=/bin', 'GREETING=hello'],
      WorkingDir: '/srv',
      User: 'web',
    })
    expect(await build({ name: 'small', image })).toMatchObject({ state: 'ready', image })
    id = await create('small')
  })

  test('has its environment, user and working directory, and shows the layers as docker does', async () => {
    const { stdout } = await sh(id, 'echo $GREETING; pwd; id -u; cat old; ls; ls opaque')
    expect(stdout).toBe('hello\n/srv\n1000\nnew\nold\nopaque\nabove\n')
  })

  test('runs Python, sleeps, wakes and forks with its variables', async () => {
    await python(id, 'x = 41')
    await server.ok(`/v1/sandboxes/${id}/standby`, { json: { tier: 'stored' }, key: tenant })
    expect((await python(id, 'print(x + 1)')).stdout).toBe('42\n')
    const { children } = await server.ok(`/v1/sandboxes/${id}/fork`, { json: {}, key: tenant })
    expect(
      (await run(server, { id: children[0].id, key: tenant, language: 'python' }, 'print(x)')).stdout,
    ).toBe('41\n')
  })

  test('boots with the same settings from a snapshot of its files', async () => {
    const { id: snapshot } = await server.ok(`/v1/sandboxes/${id}/snapshots`, {
      json: { kind: 'files' },
      key: tenant,
    })
    const { id: copy } = await server.ok('/v1/sandboxes', { json: { snapshot }, key: tenant })
    expect((await sh(copy, 'echo $GREETING; pwd; id -u')).stdout).toBe('hello\n/srv\n1000\n')
  })
})

const MEMORY = `
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
int main(void)
{
    char *heap = malloc(1 << 20), *map = mmap(0, 1 << 20, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    strcpy(heap, "heap");
    memset(map, 'm', 1 << 20);
    puts("ready");
    fflush(stdout);
    for (char line[8]; read(0, line, 1) == 1;) {
        madvise(map, 1 << 20, MADV_DONTNEED);
        printf("%s %d\\n", heap, map[4096]);
        fflush(stdout);
    }
    return 0;
}
`

/**
 * A process that waits for input through a sleep must have its memory, and zeros where it gave memory back. `copied` are
 * the programs without the guard.
 */
async function survives(id: string): Promise<{ maps: string; said: string; copied: string[] }> {
  const { stdout: maps } = await python(
    id,
    `import subprocess
p = subprocess.Popen(["/program"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
assert p.stdout.readline() == b"ready\\n"
print(open(f"/proc/{p.pid}/maps").read())`,
  )
  const why = await server.ok(`/v1/sandboxes/${id}/why`, { key: tenant })
  const copied = (why.copied ?? []).map(({ program }: { program: string }) => program)
  await server.ok(`/v1/sandboxes/${id}/standby`, { json: { tier: 'stored' }, key: tenant })
  const { stdout: said } = await python(
    id,
    'n = p.stdin.write(b"x"); p.stdin.flush(); print(p.stdout.readline().decode(), end="")',
  )
  return { maps, said, copied }
}

test('a single static binary on scratch sleeps and wakes', async () => {
  const program = compile(MEMORY, 'gcc', '-static')
  const image = registry.push('static:1', [makeLayer([{ path: 'program', content: program, mode: 0o755 }])])
  // The image has no shell: `start` uses that of the runtime.
  const preloaded = { name: 'static', image, start: 'echo started', ready: { log: 'started' } }
  expect(await build(preloaded)).toMatchObject({ state: 'ready' })
  const id = await create('static')
  const { maps, said, copied } = await survives(id)
  // No guard in a static program: its memory is copied, and madvise works as on any memory.
  expect(copied).toEqual(['program'])
  expect(maps).not.toContain('guard')
  expect(said).toBe('heap 0\n')
  expect((await sh(id, 'echo $BASH_VERSION')).stdout).toMatch(/^5\./)
})

test('a musl program has the guard, sleeps and wakes', async () => {
  const program = compile(MEMORY, 'musl-gcc')
  const libc = execFileSync(
    'sh',
    ['-c', 'cat /lib/ld-musl-*.so.1 2>/dev/null || cat /usr/lib/*-linux-musl/libc.so'],
    { maxBuffer: 1e8 },
  )
  const loader = process.arch === 'x64' ? 'lib/ld-musl-x86_64.so.1' : 'lib/ld-musl-aarch64.so.1'
  const layer = makeLayer([
    { path: 'lib' },
    { path: loader, content: libc, mode: 0o755 },
    { path: 'program', content: program, mode: 0o755 },
  ])
  const image = registry.push('musl:1', [busyboxLayer, layer], { Env: ['PATH=/bin'] })
  expect(await build({ name: 'musl', image })).toMatchObject({ state: 'ready' })
  const id = await create('musl')
  const { maps, said, copied } = await survives(id)
  expect(copied).toEqual([])
  expect(maps).toContain('ld-musl')
  expect(maps).toContain('libdormouse-guard')
  expect(said).toBe('heap 0\n')
})

describe('a layer that tries to leave its root', () => {
  const cases: [string, readonly Entry[], RegExp][] = [
    ['with ..', [{ path: '../../escaped', content: 'x' }], /outside of its root/],
    ['with a hard link to ..', [{ path: 'a', type: '1', link: '../../etc/passwd' }], /outside of its root/],
    [
      'with a hard link to a file of the host',
      [{ path: 'a', type: '1', link: '/etc/machine-id' }],
      /cannot be unpacked/,
    ],
    [
      'with a hard link through a symbolic link out of it',
      [
        { path: 'out', link: '/etc' },
        { path: 'a', type: '1', link: 'out/machine-id' },
      ],
      /cannot be unpacked/,
    ],
    ['with a size that is a lie', [{ path: 'a', content: 'x', size: 1e9 }], /larger than|middle of an entry/],
    ['that is too large', [{ path: 'a', content: Buffer.alloc(65 * 1024 ** 2) }], /larger than/],
    ['that belongs to an unknown user', [{ path: 'a', content: '', uid: 70_000 }], /only ids up to 65535/],
  ]
  test.each(cases)('%s is refused', async (title, entries, reason) => {
    const name = `bad${title.replaceAll(/[^a-z]+/g, '')}`
    const image = registry.push(`${name}:1`, [makeLayer(entries)])
    const template = await build({ name, image })
    expect(template.state).toBe('failed')
    expect(template.error).toMatch(reason)
    expect(existsSync('/escaped')).toBe(false)
  })

  test('through links writes inside only, brings no device and no file of ours', async () => {
    const before = readdirSync('/tmp').length
    const image = registry.push('tricks:1', [
      makeLayer([
        ...busybox,
        { path: 'out', link: '/tmp/../../../../tmp' },
        { path: 'tmp' },
        { path: 'out/written', content: 'inside\n' },
        { path: 'sda', type: '4' },
        { path: 'null', type: '3' },
        { path: '.dormouse', link: '/bin' },
        { path: 'dev', link: '/bin' },
        { path: 'root-shell', content: 'x', mode: 0o4755 },
      ]),
    ])
    expect(await build({ name: 'tricks', image })).toMatchObject({ state: 'ready' })
    expect(readdirSync('/tmp').length - before).toBeLessThan(20)
    expect(existsSync('/tmp/written')).toBe(false)
    const id = await create('tricks')
    const { stdout } = await sh(
      id,
      'cat /tmp/written; ls / ; stat -c %a,%u /root-shell; test -e /.dormouse/run && echo ours',
    )
    expect(stdout).toContain('inside\n')
    expect(stdout).toContain('4755,0\nours\n')
    expect(stdout).not.toMatch(/^(sda|null)$/m)
  })
})

test('a layer whose content is not what the configuration says is refused', async () => {
  const layout = join(scratch, 'mismatch')
  writeLayout(layout, [busyboxLayer], {}, { diffIds: [digestOf(Buffer.from('other'))] })
  const template = await build({ name: 'mismatch', image: `oci:${layout}` }, server.key)
  expect(template).toMatchObject({ state: 'failed', error: expect.stringContaining('than its digest says') })
})

test('layers are pulled once for all, and an image may have 50 of them', async () => {
  const layers = Array.from({ length: 50 }, (_, at) => makeLayer([{ path: `file-${at}`, content: `${at}` }]))
  const image = registry.push('many:1', [busyboxLayer, ...layers], { Env: ['PATH=/bin'] })
  const first = await build({ name: 'many', image })
  expect(first.state).toBe('ready')
  expect(first.logTail).toContain('Unpacked layer')
  const other = (await server.ok('/v1/keys', { json: { name: 'other', scopes: ['run', 'read'] } })).key
  const second = await build({ name: 'many', image }, other)
  expect(second.state).toBe('ready')
  expect(second.logTail).not.toContain('Unpacked layer')
  const id = await create('many')
  expect((await sh(id, 'cat /file-0 /file-49')).stdout).toBe('049')
  await server.ok(`/v1/sandboxes/${id}/standby`, { json: { tier: 'stored' }, key: tenant })
  expect((await sh(id, 'cat /file-0 /file-49')).stdout).toBe('049')
})

test('an archive of docker save can be uploaded; paths of the host are for administrators', async () => {
  const layout = join(scratch, 'saved')
  writeLayout(layout, [busyboxLayer], { Env: ['PATH=/bin'] })
  const archive = join(scratch, 'saved.tar')
  execFileSync(
    'skopeo',
    ['--insecure-policy', 'copy', `oci:${layout}`, `docker-archive:${archive}:saved:1`],
    { stdio: 'pipe' },
  )
  const id = await upload(server, tenant, gzipSync(readFileSync(archive)))
  expect(await build({ name: 'saved', image: `upload:${id}` })).toMatchObject({ state: 'ready' })
  const damaged = await upload(server, tenant, gzipSync(readFileSync(archive)).subarray(0, -5_000))
  const broken = await build({ name: 'damaged', image: `upload:${damaged}` })
  expect(broken).toMatchObject({ state: 'failed', error: expect.stringMatching(/damaged|cannot be read/) })
  expect(`${broken.error}${broken.logTail}`).not.toContain(server.factory.stateDir)
  const refused = await build({ name: 'on-disk', image: `docker-archive:${archive}` })
  expect(refused).toMatchObject({ state: 'failed', error: expect.stringContaining('admin') })
  expect(await build({ name: 'on-disk', image: `docker-archive:${archive}` }, server.key)).toMatchObject({
    state: 'ready',
  })
})
