import { execFileSync } from 'node:child_process'
import { chmod, lstat, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { useCommandLine } from './command-line.ts'

const cli = useCommandLine()
let here: string
beforeAll(async () => {
  here = await mkdtemp(join(tmpdir(), 'dormouse-cp-'))
  await cli.json(['create', 'box'])
})
afterAll(() => rm(here, { recursive: true }))

const inside = async (line: string) => (await cli.run(['exec', 'box', '--', 'bash', '-c', line])).stdout

test('a directory keeps contents, permissions, links, and empty, many and large files on the way in and out', async () => {
  const tree = join(here, 'tree')
  await mkdir(join(tree, 'deep/er'), { recursive: true })
  await writeFile(join(tree, 'program'), '#!/bin/sh\n', { mode: 0o755 })
  await chmod(join(tree, 'program'), 0o755)
  await writeFile(join(tree, 'größe und "zitate"'), 'ü')
  await writeFile(join(tree, 'deep/empty'), '')
  await writeFile(join(tree, 'deep/er/big'), Buffer.alloc(20_000_000, 'binary\0\xff'))
  await Promise.all(Array.from({ length: 100 }, (_, i) => writeFile(join(tree, `deep/${i}`), String(i))))
  await symlink('../program', join(tree, 'deep/link'))
  expect(await cli.json(['cp', tree, 'box:/root/new'])).toMatchObject({ files: 104 })
  expect(await inside('stat -c %a /root/new/program; readlink /root/new/deep/link')).toBe('755\n../program\n')
  // Copies into an existing directory under its own name.
  await cli.json(['cp', tree, 'box:/root'])
  expect(await inside('diff -r /root/new /root/tree && echo same')).toBe('same\n')
  await cli.json(['cp', 'box:/root/tree', join(here, 'back')])
  execFileSync('diff', ['-r', '--no-dereference', tree, join(here, 'back')])
  expect((await lstat(join(here, 'back/program'))).mode & 0o777).toBe(0o755)
  await mkdir(join(here, 'into'))
  await cli.json(['cp', 'box:/root/tree', join(here, 'into')])
  execFileSync('diff', ['-r', '--no-dereference', tree, join(here, 'into/tree')])
})

test('files are copied to a name, into a directory, and through pipes', async () => {
  await writeFile(join(here, 'a.txt'), 'text')
  await cli.json(['cp', join(here, 'a.txt'), 'box:/tmp/b.txt'])
  await cli.json(['cp', join(here, 'a.txt'), 'box:/tmp/'])
  expect(await inside('cat /tmp/b.txt /tmp/a.txt')).toBe('texttext')
  await cli.run(['cp', '-', 'box:/tmp/piped'], { input: 'through a pipe' })
  expect((await cli.run(['cp', 'box:/tmp/piped', '-'])).stdout).toBe('through a pipe')
  await cli.json(['cp', 'box:/tmp/piped', here])
  expect(await readFile(join(here, 'piped'), 'utf8')).toBe('through a pipe')
})

test('cp writes nothing through a link from an earlier copy', async () => {
  const outside = join(here, 'outside')
  const target = join(here, 'target')
  await mkdir(outside)
  await writeFile(join(outside, 'precious'), 'untouched')
  await inside(
    `mkdir -p /tmp/evil && ln -sfn ${outside} /tmp/evil/door && ln -sfn ${outside}/precious /tmp/evil/file`,
  )
  await cli.json(['cp', 'box:/tmp/evil', target])
  expect((await lstat(join(target, 'door'))).isSymbolicLink()).toBe(true)
  await inside('cd /tmp/evil && rm door file && mkdir door && echo x | tee door/precious door/new > file')
  const through = await cli.run(['cp', 'box:/tmp/evil/.', target])
  const again = await cli.run(['cp', 'box:/tmp/evil/.', join(here, 'other')])
  expect(again.status).toBe(0)
  expect(through.status).not.toBe(0)
  expect(await readFile(join(outside, 'precious'), 'utf8')).toBe('untouched')
  await inside('chmod 4777 /tmp/evil/file')
  await cli.json(['cp', 'box:/tmp/evil/file', join(here, 'plain')])
  expect((await lstat(join(here, 'plain'))).mode & 0o7000).toBe(0)
})

test('cp refuses impossible copies before it copies anything', async () => {
  expect((await cli.run(['cp', 'a', 'b'])).status).toBe(2)
  expect((await cli.run(['cp', 'box:a', 'box:b'])).status).toBe(2)
  expect((await cli.run(['cp', '-', 'box:'], { input: 'x' })).status).toBe(1)
  expect((await cli.run(['cp', join(here, 'absent'), 'box:/tmp/x'])).stderr).toContain('no such file')
  expect((await cli.run(['cp', 'box:/absent', here])).status).toBe(1)
  expect((await cli.run(['cp', join(here, 'a.txt'), 'box:/no/such/dir/'])).status).toBe(1)
})
