import { randomBytes } from 'node:crypto'
import { mkdir, readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { beforeAll, describe, expect, test } from 'vitest'
import { sha256, useSsh } from './ssh-client.ts'

const MIB = 1024 ** 2
const bench = useSsh()
const content = randomBytes(40 * MIB)
let file: string
beforeAll(async () => {
  file = join(bench.client.dir, 'data.bin')
  await writeFile(file, content, { mode: 0o640 })
})
const inside = async (path: string) =>
  (await bench.exec(`sha256sum < ${path}`)).stdout.toString().slice(0, 64)

describe('files over SSH', () => {
  test('scp copies there and back, with modes and directories', async () => {
    const { client, key } = bench
    const there = await client.run('scp', [...client.options(key), '-p', file, 'box@127.0.0.1:/root/scp.bin'])
    expect(there).toMatchObject({ code: 0, stderr: '' })
    expect(await inside('/root/scp.bin')).toBe(sha256(content))
    expect((await bench.exec('stat -c %a /root/scp.bin')).stdout.toString()).toBe('640\n')
    const back = join(client.dir, 'back.bin')
    expect(
      (await client.run('scp', [...client.options(key), 'box@127.0.0.1:/root/scp.bin', back])).code,
    ).toBe(0)
    expect(sha256(await readFile(back))).toBe(sha256(content))
    await mkdir(join(client.dir, 'tree/sub dir'), { recursive: true })
    await writeFile(join(client.dir, 'tree/sub dir/ü'), 'deep')
    const tree = join(client.dir, 'tree')
    expect((await client.run('scp', [...client.options(key), '-r', tree, 'box@127.0.0.1:/root/'])).code).toBe(
      0,
    )
    expect((await bench.exec('cat "/root/tree/sub dir/ü"')).stdout.toString()).toBe('deep')
    const missing = await client.run('scp', [...client.options(key), 'box@127.0.0.1:/nowhere', back])
    expect([missing.code, missing.stderr]).toEqual([1, expect.stringContaining('No such file')])
  })

  test('sftp works through a list of orders', async () => {
    const { client, key } = bench
    const orders = [
      ...[
        'mkdir /root/sftp',
        'cd /root/sftp',
        `put ${file} one`,
        'rename one two',
        'chmod 600 two',
        'symlink two link',
      ],
      ...[`get two ${client.dir}/two`, 'ls -l', 'rm link', 'bye'],
    ]
    const done = await client.run(
      'sftp',
      [...client.options(key), '-b', '-', 'box@127.0.0.1'],
      `${orders.join('\n')}\n`,
    )
    expect(done.code, done.stderr).toBe(0)
    expect(done.stdout.toString()).toMatch(/-rw-------.* two/)
    expect(sha256(await readFile(join(client.dir, 'two')))).toBe(sha256(content))
    const refused = await client.run(
      'sftp',
      [...client.options(key), '-b', '-', 'box@127.0.0.1'],
      'get /nowhere\n',
    )
    expect(refused.code).toBe(1)
  })

  test('rsync copies there and back, and only what has changed the next time', async () => {
    const { client, key } = bench
    const shell = `ssh ${client.options(key).join(' ')}`
    const sync = (...args: string[]) => client.run('rsync', ['-a', '--stats', '-e', shell, ...args])
    expect(await sync(file, 'box@127.0.0.1:/root/rsync.bin')).toMatchObject({ code: 0, stderr: '' })
    expect(await inside('/root/rsync.bin')).toBe(sha256(content))
    await bench.exec('printf changed | dd of=/root/rsync.bin bs=1 seek=20000000 conv=notrunc status=none')
    const back = await sync('--no-whole-file', '--checksum', 'box@127.0.0.1:/root/rsync.bin', file)
    expect(back.code, back.stderr).toBe(0)
    const literal = /Literal data: (?<bytes>[\d,]+)/.exec(back.stdout.toString())?.groups?.['bytes'] ?? ''
    expect(Number(literal.replaceAll(',', ''))).toBeLessThan(MIB)
    expect(sha256(await readFile(file))).toBe(await inside('/root/rsync.bin'))
    expect((await stat(file)).size).toBe(content.length)
  })
})
