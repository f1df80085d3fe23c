import { createHash } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { collect, collectBytes, collectText, runPython } from './collect.ts'
import type { EngineFactory } from './engine-factory.ts'
import { useSharedBurrow } from './shared-burrow.ts'

const MIB = 1024 ** 2

export function describeFiles(factory: EngineFactory): void {
  describe('files', () => {
    const shared = useSharedBurrow(factory)
    const bash = async (code: string) => (await shared.guest.runs.run({ code, language: 'bash' })).stdout
    const read = (path: string, options: { offset?: number; length?: number } = {}) =>
      collectText(shared.guest.files.read(path, options))
    const names = async (path: string, depth?: number) => {
      const options = depth === undefined ? {} : { depth }
      return (await collect(shared.guest.files.list(path, options))).map((entry) => entry.path)
    }

    test('a written file reads the same from the host and inside', async () => {
      const stat = await shared.guest.files.write('/tmp/note', 'hällo\n')
      expect(stat).toMatchObject({
        path: '/tmp/note',
        name: 'note',
        type: 'file',
        sizeBytes: 7,
        mode: 0o644,
        uid: 0,
        user: 'root',
        group: 'root',
      })
      expect(await read('/tmp/note')).toBe('hällo\n')
      expect(await runPython(shared.guest, 'print(open("/tmp/note").read(), end="")')).toBe('hällo\n')
      expect(await shared.guest.files.stat('/tmp/note')).toEqual(stat)
    })

    test('bytes of every value and an empty file survive', async () => {
      const bytes = Buffer.from(Array.from({ length: 256 }, (_, n) => n))
      await shared.guest.files.write('/tmp/bytes', bytes)
      expect(await collectBytes(shared.guest.files.read('/tmp/bytes'))).toEqual(bytes)
      await shared.guest.files.write('/tmp/empty', '')
      expect(await read('/tmp/empty')).toBe('')
    })

    test('64 MB stream in and out unchanged, in bounded memory of the agent', async () => {
      const before = await shared.guest.info()
      const sent = createHash('sha256')
      async function* pieces() {
        for (let n = 0; n < 64; n += 1) {
          const piece = Buffer.alloc(MIB + (n % 3), `piece ${n} `)
          sent.update(piece)
          yield piece
        }
      }
      const stat = await shared.guest.files.write('/tmp/large', pieces())
      const digest = sent.digest('hex')
      expect(await bash('sha256sum < /tmp/large')).toContain(digest)
      const received = createHash('sha256')
      let sizeBytes = 0
      for await (const piece of shared.guest.files.read('/tmp/large')) {
        received.update(piece)
        sizeBytes += piece.byteLength
      }
      expect(received.digest('hex')).toBe(digest)
      expect(sizeBytes).toBe(stat.sizeBytes)
      expect((await shared.guest.info()).rssBytes).toBeLessThan(before.rssBytes + 32 * MIB)
    })

    test('leaving a read early ends it, and the next call works', async () => {
      await shared.guest.files.write('/tmp/left', Buffer.alloc(8 * MIB))
      for await (const piece of shared.guest.files.read('/tmp/left')) {
        expect(piece.byteLength).toBeGreaterThan(0)
        break
      }
      expect(await read('/tmp/left', { length: 3 })).toBe('\0\0\0')
    })

    test('append adds to the end and creates a missing file', async () => {
      await shared.guest.files.write('/tmp/log', 'one\n', { append: true })
      await shared.guest.files.write('/tmp/log', 'two\n', { append: true })
      expect(await read('/tmp/log')).toBe('one\ntwo\n')
    })

    test('offset and length select a part', async () => {
      await shared.guest.files.write('/tmp/part', '0123456789')
      expect(await read('/tmp/part', { offset: 3, length: 4 })).toBe('3456')
      expect(await read('/tmp/part', { offset: 8 })).toBe('89')
      expect(await read('/tmp/part', { offset: 8, length: 100 })).toBe('89')
      expect(await read('/tmp/part', { offset: 100 })).toBe('')
      expect(await read('/tmp/part', { length: 0 })).toBe('')
    })

    test('relative paths start at the home of the user', async () => {
      await shared.guest.files.write('mine', 'root’s')
      await shared.guest.files.write('mine', 'user’s', { user: 'user' })
      expect(await bash('cat /root/mine /home/user/mine')).toBe('root’suser’s')
    })

    test('names may contain spaces, newlines, quotes and any letters', async () => {
      for (const name of [
        'a b',
        'quote"\'$(x)',
        'new\nline',
        'größe-🐭-名',
        '-rf',
        '.hidden',
        'x'.repeat(255),
      ]) {
        const path = `/tmp/names/${name}`
        await shared.guest.files.write(path, name, { parents: true })
        expect(await read(path)).toBe(name)
        expect(await shared.guest.files.stat(path)).toMatchObject({ path, name })
        expect(await names('/tmp/names')).toEqual([path])
        await shared.guest.files.remove(path)
      }
    })

    test('a list is in name order, directories before their contents, to the requested depth', async () => {
      for (const name of ['b/2', 'b/1/x', 'a', 'c']) {
        await shared.guest.files.write(`/tmp/tree/${name}`, '', { parents: true })
      }
      await bash('ln -s / /tmp/tree/link')
      const at = (...paths: string[]) => paths.map((path) => `/tmp/tree/${path}`)
      expect(await names('/tmp/tree')).toEqual(at('a', 'b', 'c', 'link'))
      expect(await names('/tmp/tree', 2)).toEqual(at('a', 'b', 'b/1', 'b/2', 'c', 'link'))
      expect(await names('/tmp/tree', 64)).toEqual(at('a', 'b', 'b/1', 'b/1/x', 'b/2', 'c', 'link'))
      const entries = await collect(shared.guest.files.list('/tmp/tree'))
      expect(entries.map(({ type }) => type)).toEqual(['file', 'directory', 'file', 'symlink'])
      expect(entries[3]?.target).toBe('/')
    })

    test('a directory of 5000 entries is listed completely', async () => {
      await runPython(
        shared.guest,
        'import os\nos.mkdir("/tmp/many")\nfor i in range(5000): open(f"/tmp/many/{i:04}", "w").close()',
      )
      const found = await names('/tmp/many')
      expect(found).toHaveLength(5000)
      expect(found[4999]).toBe('/tmp/many/4999')
    })

    test('stat reports every type, and follows a link by default', async () => {
      const make =
        'cd /tmp; mkdir -p types; cd types; mkfifo fifo; ln -s fifo link; ln -s nowhere dangling; ' +
        'python3 -c "import socket; socket.socket(socket.AF_UNIX).bind(\'socket\')"'
      await bash(make)
      const type = async (path: string, follow = true) =>
        (await shared.guest.files.stat(path, { follow })).type
      expect(await type('/tmp/types')).toBe('directory')
      expect(await type('/tmp/types/fifo')).toBe('fifo')
      expect(await type('/tmp/types/socket')).toBe('socket')
      expect(await type('/dev/null')).toBe('device')
      expect(await type('/tmp/types/link')).toBe('fifo')
      expect(await shared.guest.files.stat('/tmp/types/link', { follow: false })).toMatchObject({
        type: 'symlink',
        target: 'fifo',
      })
      await expect(type('/tmp/types/dangling')).rejects.toMatchObject({ code: 'not_found' })
    })

    test('mkdir creates parents and accepts an existing directory, only with parents', async () => {
      const { files } = shared.guest
      expect(await files.mkdir('/tmp/made/deep', { mode: 0o700 })).toMatchObject({
        type: 'directory',
        mode: 0o700,
      })
      expect(await files.mkdir('/tmp/made/deep')).toMatchObject({ mode: 0o700 })
      const again = files.mkdir('/tmp/made/deep', { parents: false })
      await expect(again).rejects.toMatchObject({ code: 'already_exists' })
      const orphan = files.mkdir('/tmp/none/deep', { parents: false })
      await expect(orphan).rejects.toMatchObject({ code: 'not_found' })
    })

    test('move renames files and directories, and replaces a file only when allowed', async () => {
      const { files } = shared.guest
      await files.write('/tmp/from', 'new')
      await files.write('/tmp/to', 'old')
      const refused = files.move({ from: '/tmp/from', to: '/tmp/to' }, { overwrite: false })
      await expect(refused).rejects.toMatchObject({ code: 'already_exists' })
      expect(await read('/tmp/to')).toBe('old')
      expect(await files.move({ from: '/tmp/from', to: '/tmp/to' })).toMatchObject({
        path: '/tmp/to',
        sizeBytes: 3,
      })
      expect(await read('/tmp/to')).toBe('new')
      await expect(files.stat('/tmp/from')).rejects.toMatchObject({ code: 'not_found' })
      await files.write('/tmp/dir/inside', 'kept', { parents: true })
      await files.move({ from: '/tmp/dir', to: '/tmp/moved' }, { overwrite: false })
      expect(await read('/tmp/moved/inside')).toBe('kept')
    })

    test('a refused move leaves the source in place', async () => {
      const { files } = shared.guest
      await files.write('/root/stays', 'here')
      const move = (to: string) => files.move({ from: '/root/stays', to })
      await expect(move('/proc/stays')).rejects.toMatchObject({
        code: expect.stringMatching(/denied|not_found/),
      })
      await expect(move('/no/such/place')).rejects.toMatchObject({ code: 'not_found' })
      await expect(move('/etc')).rejects.toMatchObject({ code: 'not_a_file' })
      expect(await read('/root/stays')).toBe('here')
    })

    test('remove deletes files, links without their targets, and full directories only if recursive', async () => {
      const { files } = shared.guest
      await files.write('/tmp/gone/a/b/c', 'x', { parents: true })
      await files.write('/tmp/precious/p', 'kept', { parents: true })
      await bash('ln -s /tmp/precious /tmp/gone/a/link')
      await expect(files.remove('/tmp/gone')).rejects.toMatchObject({ code: 'directory_not_empty' })
      await files.remove('/tmp/gone', { recursive: true })
      await expect(files.stat('/tmp/gone')).rejects.toMatchObject({ code: 'not_found' })
      expect(await read('/tmp/precious/p')).toBe('kept')
      await bash('ln -s /tmp/precious /tmp/link')
      await files.remove('/tmp/link', { recursive: true })
      expect(await read('/tmp/precious/p')).toBe('kept')
      await files.mkdir('/tmp/hollow')
      await files.remove('/tmp/hollow')
      await expect(files.remove('/tmp/hollow')).rejects.toMatchObject({ code: 'not_found' })
    })
  })
}
