import { describe, expect, test } from 'vitest'
import { collect, collectText, eventually, textOf } from './collect.ts'
import type { EngineFactory } from './engine-factory.ts'
import { useSharedBurrow } from './shared-burrow.ts'

const MIB = 1024 ** 2

export function describeFilesSafety(factory: EngineFactory): void {
  describe('safety of files', () => {
    const shared = useSharedBurrow(factory)
    const bash = async (code: string) => (await shared.guest.runs.run({ code, language: 'bash' })).stdout
    const read = (path: string) => collectText(shared.guest.files.read(path))

    test('a reader sees the old or the new file during a write', async () => {
      const { files, processes } = shared.guest
      const size = 3 * MIB
      await files.write('/tmp/atomic/file', Buffer.alloc(size, 'a'), { parents: true })
      const watch =
        'import collections, os\nseen = collections.Counter()\nopen("/tmp/watching", "w").close()\n' +
        'while not os.path.exists("/tmp/written"):\n  data = open("/tmp/atomic/file", "rb").read()\n' +
        '  seen["whole" if len(data) == 3 * 2**20 and len(set(data)) == 1 else "mixed"] += 1\nprint(dict(seen))'
      const processId = await processes.start({ args: ['python3', '-c', watch] })
      await eventually('the watcher', () =>
        files.stat('/tmp/watching').then(
          () => true,
          () => false,
        ),
      )
      for (let round = 0; round < 12; round += 1) {
        await files.write('/tmp/atomic/file', Buffer.alloc(size, 'bcd'[round % 3]))
      }
      await files.write('/tmp/written', '')
      expect(textOf(await collect(processes.events(processId)), 'stdout')).toMatch(/^\{'whole': \d+\}\n$/)
    })

    test.each(['fails', 'is aborted'])(
      'a write that %s midway leaves the old content and no other file',
      async (how) => {
        const { files } = shared.guest
        const directory = `/tmp/midway-${how.length}`
        await files.write(`${directory}/file`, 'old', { parents: true })
        const controller = new AbortController()
        async function* pieces() {
          yield Buffer.alloc(3 * MIB, 'n')
          // The temporary file beside the target shows that the agent has begun to write.
          await eventually(
            'the unfinished file',
            async () => (await collect(files.list(directory))).length === 2,
          )
          if (how === 'fails') throw new Error('the source broke')
          controller.abort()
          yield Buffer.alloc(3 * MIB, 'n')
        }
        const write = files.write(`${directory}/file`, pieces(), { signal: controller.signal })
        await expect(write).rejects.toMatchObject(
          how === 'fails' ? { message: 'the source broke' } : { code: 'cancelled' },
        )
        await eventually('one file', async () => (await collect(files.list(directory))).length === 1)
        expect(await read(`${directory}/file`)).toBe('old')
      },
    )

    test('an aborted append removes what it added', async () => {
      const { files } = shared.guest
      await files.write('/tmp/appended', 'old')
      const controller = new AbortController()
      async function* pieces() {
        yield Buffer.alloc(2 * MIB, 'n')
        await eventually('a part', async () => (await files.stat('/tmp/appended')).sizeBytes > 3)
        controller.abort()
      }
      const write = files.write('/tmp/appended', pieces(), { append: true, signal: controller.signal })
      await expect(write).rejects.toMatchObject({ code: 'cancelled' })
      await eventually('the old size', async () => (await files.stat('/tmp/appended')).sizeBytes === 3)
    })

    test('concurrent writes leave one of them whole', async () => {
      const { files } = shared.guest
      const letters = ['a', 'b', 'c', 'd']
      await Promise.all(letters.map((letter) => files.write('/tmp/raced', Buffer.alloc(2 * MIB, letter))))
      const content = await read('/tmp/raced')
      expect(content).toHaveLength(2 * MIB)
      expect(new Set(content).size).toBe(1)
    })

    test('a new file gets the requested mode; an existing one keeps its mode and owner', async () => {
      const { files } = shared.guest
      expect(await files.write('/tmp/script', '#!/bin/sh\necho ran\n', { mode: 0o755 })).toMatchObject({
        mode: 0o755,
      })
      expect(await bash('/tmp/script')).toBe('ran\n')
      expect(await files.write('/tmp/script', '#!/bin/sh\necho again\n')).toMatchObject({ mode: 0o755 })
      await bash('echo x > /tmp/theirs; chown user:user /tmp/theirs; chmod 640 /tmp/theirs')
      expect(await files.write('/tmp/theirs', 'new')).toMatchObject({
        user: 'user',
        group: 'user',
        mode: 0o640,
      })
    })

    test('a file that a user writes belongs to that user', async () => {
      const { files } = shared.guest
      const own = { user: 'user', group: 'user', uid: 1000, gid: 1000 }
      expect(await files.write('own/deep/file', 'x', { user: 'user', parents: true })).toMatchObject(own)
      expect(await files.stat('/home/user/own/deep')).toMatchObject(own)
      expect(await files.mkdir('own/made', { user: 'user' })).toMatchObject(own)
    })

    test('a write follows a symlink, which stays a link', async () => {
      const { files } = shared.guest
      await files.write('/tmp/linked/real', 'old', { parents: true })
      await bash('ln -s linked/real /tmp/to-real; ln -s /tmp/linked/new /tmp/to-new')
      await files.write('/tmp/to-real', 'new')
      await files.write('/tmp/to-new', 'made')
      expect((await files.stat('/tmp/to-real', { follow: false })).type).toBe('symlink')
      expect(await bash('cat /tmp/linked/real /tmp/linked/new')).toBe('newmade')
    })

    test.each<[string, string, string]>([
      ['in a directory that does not exist', '/tmp/no/such/file', 'not_found'],
      ['under a file', '/etc/passwd/file', 'not_a_directory'],
      ['a directory', '/tmp', 'not_a_file'],
      ['a FIFO that no process has open', '/tmp/a-fifo', 'not_a_file'],
      ['a device', '/dev/null', 'not_a_file'],
      ['a link to itself', '/tmp/loop', 'invalid_argument'],
      ['a name that is too long', `/tmp/${'x'.repeat(256)}`, 'invalid_argument'],
    ])('read, write and append refuse at once: %s', async (_what, path, code) => {
      const { files } = shared.guest
      await bash('cd /tmp; mkfifo a-fifo; ln -s loop loop')
      await expect(read(path)).rejects.toMatchObject({ code })
      await expect(files.write(path, 'x')).rejects.toMatchObject({ code })
      await expect(files.write(path, 'x', { append: true })).rejects.toMatchObject({ code })
    })

    test('file operations have the rights of the given user', async () => {
      const { files } = shared.guest
      const user = 'user'
      await files.write('/root/secret', 'root only', { mode: 0o600 })
      await files.write('/tmp/readable', 'for all', { mode: 0o644 })
      const denied = { code: 'permission_denied' }
      await expect(collectText(files.read('/root/secret', { user }))).rejects.toMatchObject(denied)
      await expect(files.write('/root/secret', 'x', { user })).rejects.toMatchObject(denied)
      await expect(files.write('/tmp/readable', 'x', { user })).rejects.toMatchObject(denied)
      await expect(files.write('/tmp/readable', 'x', { user, append: true })).rejects.toMatchObject(denied)
      await expect(files.write('/etc/new', 'x', { user })).rejects.toMatchObject(denied)
      await expect(files.mkdir('/etc/new', { user })).rejects.toMatchObject(denied)
      await expect(files.remove('/etc/hostname', { user })).rejects.toMatchObject(denied)
      await expect(files.move({ from: '/etc/hostname', to: '/tmp/h' }, { user })).rejects.toMatchObject(
        denied,
      )
      await expect(collect(files.list('/root', { user }))).rejects.toMatchObject(denied)
      await expect(files.stat('/root/secret', { user })).rejects.toMatchObject(denied)
      expect(await collectText(files.read('/tmp/readable', { user }))).toBe('for all')
      expect(await read('/root/secret')).toBe('root only')
    })

    test.each<[string, string]>([
      ['/tmp/absent', 'not_found'],
      ['/etc/passwd', 'not_a_directory'],
    ])('list refuses %s', async (path, code) => {
      await expect(collect(shared.guest.files.list(path))).rejects.toMatchObject({ code })
    })

    test('a refused write fails before all data is sent', async () => {
      let taken = 0
      async function* endless() {
        for (; taken < 2000; taken += 1) yield Buffer.alloc(MIB)
      }
      const write = shared.guest.files.write('/tmp/no/such/place', endless())
      await expect(write).rejects.toMatchObject({ code: 'not_found' })
      expect(taken).toBeLessThan(2000)
    })
  })
}
