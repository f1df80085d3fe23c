import { chmod, lstat, mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type FileChange, Sandbox } from 'dormouse'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { useSdkServer } from './sdk-server.ts'

const server = useSdkServer()
let sandbox: Sandbox
beforeAll(async () => {
  sandbox = await server.create()
})

describe('files', () => {
  test('are written and read as text and as bytes', async () => {
    const written = await sandbox.files.write('/root/a/b/grüße.txt', 'Grüße ✓', { mode: '0600' })
    await expect(sandbox.files.write('/root/no/a', '', { parents: false })).rejects.toMatchObject({
      code: 'not_found',
    })
    expect(written).toMatchObject({ path: '/root/a/b/grüße.txt', type: 'file', mode: '0600' })
    expect(await sandbox.files.read('/root/a/b/grüße.txt')).toBe('Grüße ✓')
    const bytes = Uint8Array.from({ length: 256 }, (_, index) => index)
    await sandbox.files.write('bytes', bytes)
    expect(await sandbox.files.readBytes('/root/bytes')).toEqual(bytes)
    await sandbox.files.write('bytes', new Blob([bytes]), { append: true })
    expect((await sandbox.files.stat('bytes')).sizeBytes).toBe(512)
  })

  test('of any size are streamed both ways', async () => {
    const piece = new Uint8Array(1024 ** 2).map((_, index) => index % 251)
    let left = 24
    const stream = new ReadableStream<Uint8Array>({
      pull(controller) {
        if (left-- > 0) controller.enqueue(piece)
        else controller.close()
      },
    })
    await sandbox.files.write('/tmp/large', stream)
    let length = 0
    let differences = 0
    const reader = sandbox.files.stream('/tmp/large').getReader()
    for (let next = await reader.read(); !next.done; next = await reader.read()) {
      for (const [index, byte] of next.value.entries())
        if (byte !== piece[(length + index) % piece.length]) differences += 1
      length += next.value.byteLength
    }
    expect([length, differences]).toEqual([24 * 1024 ** 2, 0])
  })

  test('are listed, moved, found and removed', async () => {
    await sandbox.files.mkdir('/root/dir/inner')
    await sandbox.files.write('/root/dir/one', '1')
    expect((await sandbox.files.list('/root/dir', { depth: 2 })).map(({ name }) => name)).toEqual([
      'inner',
      'one',
    ])
    await sandbox.files.move('/root/dir/one', '/root/dir/inner/two')
    expect(await sandbox.files.exists('/root/dir/one')).toBe(false)
    expect(await sandbox.files.exists('/root/dir/inner/two')).toBe(true)
    expect(await sandbox.files.exists('/root/dir/inner/two/three')).toBe(false)
    await expect(sandbox.files.remove('/root/dir')).rejects.toMatchObject({ code: 'directory_not_empty' })
    await sandbox.files.remove('/root/dir', { recursive: true })
    expect(await sandbox.files.exists('/root/dir')).toBe(false)
    await expect(sandbox.files.read('/root/dir')).rejects.toMatchObject({ code: 'not_found' })
  })

  test('of a sandbox that does not exist throw, also from exists', async () => {
    const gone = await server.create()
    await gone.delete()
    await expect(gone.files.exists('/etc/passwd')).rejects.toMatchObject({ code: 'not_found' })
  })

  test('are watched', async () => {
    await sandbox.files.mkdir('/root/watched')
    const changes: FileChange[] = []
    for await (const change of sandbox.files.watch('/root/watched', { recursive: true })) {
      if (change.type === 'ready') await sandbox.files.write('/root/watched/new', 'x')
      else changes.push(change)
      if (changes.some(({ path }) => path === '/root/watched/new')) break
    }
    expect(changes.at(-1)?.path).toBe('/root/watched/new')
  })

  test('are watched until the signal aborts', async () => {
    const controller = new AbortController()
    const watching = (async () => {
      for await (const { type } of sandbox.files.watch('/root', { signal: controller.signal }))
        if (type === 'ready') controller.abort()
    })()
    await expect(watching).rejects.toMatchObject({ code: 'cancelled' })
  })
})

describe('directories', () => {
  let place = ''
  let local = ''
  beforeAll(async () => {
    place = await mkdtemp(join(tmpdir(), 'dormouse-directories-'))
    local = join(place, 'local')
    await mkdir(join(local, 'a/empty'), { recursive: true })
    await mkdir(join(local, 'many'))
    for (const [name, content] of contents) await writeFile(join(local, name), content)
    await chmod(join(local, 'a/run.sh'), 0o750)
    await symlink('größe.txt', join(local, 'link'))
    await symlink('missing', join(local, 'nowhere'))
    await symlink('.', join(local, 'cycle'))
  })
  afterAll(() => rm(place, { recursive: true, force: true }))

  const contents = new Map<string, string>([
    ['größe.txt', '1'],
    ['a/run.sh', '#!/bin/sh\n'],
    ['a/none', ''],
    ['a/large', 'x'.repeat(5 * 1024 ** 2)],
    ...Array.from({ length: 20 }, (_, index): [string, string] => [`many/${index}`, `${index}`]),
  ])

  /** The files below a directory of this machine. A link is not a file. */
  async function filesBelow(directory: string): Promise<Map<string, string>> {
    const found = new Map<string, string>()
    for (const entry of await readdir(directory, { withFileTypes: true, recursive: true })) {
      const path = join(entry.parentPath, entry.name)
      if (entry.isFile()) found.set(path.slice(directory.length + 1), await readFile(path, 'utf8'))
      else if (!entry.isDirectory()) found.set(path, 'neither a file nor a directory')
    }
    return found
  }

  test('are copied there and back', async () => {
    const back = join(place, 'back/again')
    await sandbox.files.uploadDir(local, '/root/up/er')
    expect(await sandbox.files.stat('/root/up/er/a/run.sh')).toMatchObject({ mode: '0750' })
    expect(await sandbox.files.stat('/root/up/er/a/empty')).toMatchObject({ type: 'directory' })
    await sandbox.files.uploadDir(local, '/root/up/er/')
    const odd = 'ln -s /etc/hostname out; ln -s / cycle; mkfifo fifo'
    ;(await sandbox.commands.run(odd, { cwd: '/root/up/er' })).check()
    await sandbox.files.downloadDir('up/er', back)
    const hostname = await sandbox.files.read('/etc/hostname')
    expect(await filesBelow(back)).toEqual(new Map([...contents, ['link', '1'], ['out', hostname]]))
    expect((await lstat(join(back, 'a/run.sh'))).mode & 0o777).toBe(0o750)
    expect((await lstat(join(back, 'a/empty'))).isDirectory()).toBe(true)
  })

  test('are copied in part with a filter', async () => {
    await sandbox.files.uploadDir(local, '/root/part', {
      filter: (path) => path !== 'many' && path !== 'a/large',
    })
    const there = await sandbox.files.list('/root/part', { depth: 9 })
    expect(there.map(({ path }) => path.slice('/root/part/'.length)).sort()).toEqual([
      'a',
      'a/empty',
      'a/none',
      'a/run.sh',
      'größe.txt',
      'link',
    ])
    const back = join(place, 'part')
    await sandbox.files.downloadDir('/root/part', back, { filter: (path) => !path.endsWith('.sh') })
    expect([...(await filesBelow(back)).keys()].sort()).toEqual(['a/none', 'größe.txt', 'link'])
  })

  test('that are none are refused, and a signal or a time ends a copy', async () => {
    const file = join(local, 'größe.txt')
    await expect(sandbox.files.uploadDir(file, '/root/x')).rejects.toMatchObject({ code: 'invalid_argument' })
    await expect(sandbox.files.downloadDir('/root/none', place)).rejects.toMatchObject({ code: 'not_found' })
    const signal = AbortSignal.abort()
    await expect(sandbox.files.uploadDir(local, '/root/y', { signal })).rejects.toMatchObject({
      code: 'cancelled',
    })
    expect(await sandbox.files.exists('/root/y')).toBe(false)
    await sandbox.commands.run('mkdir /root/big; truncate -s 50G /root/big/file')
    const big = join(place, 'big')
    await expect(sandbox.files.downloadDir('/root/big', big, { timeoutMs: 300 })).rejects.toMatchObject({
      code: 'timed_out',
    })
    // Neither the file nor a part of it.
    expect(await readdir(big)).toEqual([])
  })

  test('are never written through a link of this machine', async () => {
    const [back, outside] = [join(place, 'links'), join(place, 'outside')]
    await mkdir(back)
    await mkdir(outside)
    await writeFile(join(outside, 'precious'), 'kept')
    await symlink(join(outside, 'precious'), join(back, 'file'))
    await sandbox.files.write('/root/links/file', 'new')
    await sandbox.files.downloadDir('/root/links', back)
    expect(await filesBelow(back)).toEqual(new Map([['file', 'new']]))
    await symlink(outside, join(back, 'directory'))
    await sandbox.files.write('/root/links/directory/precious', 'new')
    await expect(sandbox.files.downloadDir('/root/links', back)).rejects.toMatchObject({ code: 'conflict' })
    expect(await readFile(join(outside, 'precious'), 'utf8')).toBe('kept')
  })

  test.each(['..', '../outside', '/etc/passwd', '', '.', 'a\0b', 'a/b'])(
    'with the name %j, from a sandbox that lies, are refused',
    async (name) => {
      const lying: typeof fetch = async (input, init) => {
        const response = await fetch(input, init)
        if (!String(input).includes('/files/list')) return response
        const { items } = (await response.json()) as { items: { name: string }[] }
        return Response.json({ items: items.map((item) => ({ ...item, name })) })
      }
      const other = await Sandbox.connect(sandbox.id, { client: server.clientWith({ fetch: lying }) })
      const back = join(place, 'lies/inner')
      await expect(other.files.downloadDir('/root/part', back)).rejects.toMatchObject({ code: 'conflict' })
      expect(await filesBelow(join(place, 'lies'))).toEqual(new Map())
    },
  )
})

describe('a time', () => {
  test('ends a watch and a read', async () => {
    const watching = (async () => {
      for await (const _change of sandbox.files.watch('/root', { timeoutMs: 300 }));
    })()
    await expect(watching).rejects.toMatchObject({ code: 'timed_out' })
    await sandbox.commands.run('truncate -s 50G /root/huge')
    const reading = (async () => {
      for await (const _piece of sandbox.files.stream('/root/huge', { timeoutMs: 300 }));
    })()
    await expect(reading).rejects.toMatchObject({ code: 'timed_out' })
  })

  test('is for a call with all its repetitions', async () => {
    const deaf: typeof fetch = (_input, init) =>
      new Promise((_resolve, reject) => {
        init?.signal?.addEventListener('abort', () => reject(init.signal?.reason))
      })
    const client = server.clientWith({ fetch: deaf })
    await expect(client.health({ timeoutMs: 100 })).rejects.toMatchObject({ code: 'timed_out' })
    await expect(client.health({ signal: AbortSignal.timeout(100) })).rejects.toMatchObject({
      code: 'timed_out',
    })
    await expect(client.health({ timeoutMs: -1 })).rejects.toMatchObject({
      code: 'invalid_argument',
      message: expect.stringContaining('timeoutMs'),
    })
  })
})
