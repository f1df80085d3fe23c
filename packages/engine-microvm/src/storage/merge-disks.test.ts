import { execFileSync } from 'node:child_process'
import { chmodSync, existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { jailProgram } from '../native-programs.ts'
import { QEMU_IMG } from '../qemu/find-qemu.ts'
import { mergeDisks } from './merge-disks.ts'

const QEMU_IO = '/usr/bin/qemu-io'
const UID = 0x7000_0001
const isInstalled = existsSync(QEMU_IO) && existsSync(jailProgram)

// Skip: qemu-utils are installed only when virtual machines are asked for.
describe.skipIf(!isInstalled)('merging the disks of a chain', () => {
  let directory: string
  const at = (name: string) => join(directory, name)
  const image = (...args: string[]) => execFileSync(QEMU_IMG, args, { encoding: 'utf8' })
  const chain = (...names: string[]) =>
    names.reduce<object>(
      (backing, name) => ({ driver: 'qcow2', file: { driver: 'file', filename: at(name) }, backing }),
      { driver: 'raw', file: { driver: 'file', filename: at('root') } },
    )
  const write = (disks: string[], ...commands: string[]) => {
    const options = commands.flatMap((command) => ['-c', command])
    execFileSync(QEMU_IO, [...options, `json:${JSON.stringify(chain(...disks))}`])
  }

  beforeAll(() => {
    directory = mkdtempSync(join(tmpdir(), 'dormouse-disks-'))
    writeFileSync(at('root'), Buffer.alloc(4 * 1024 ** 2, 'r'))
    chmodSync(directory, 0o755)
    for (const name of ['a', 'b', 'c']) image('create', '-q', '-f', 'qcow2', at(name), '4M')
    write(['a'], 'write -P 1 0 1M')
    write(['a', 'b'], 'write -P 2 512k 1M', 'write -z 3M 128k')
    write(['a', 'b', 'c'], 'discard 0 64k', 'write -P 3 2M 64k')
  })
  afterAll(() => rmSync(directory, { recursive: true, force: true }))

  test('gives a disk with the same content, of which what is hidden takes no room', async () => {
    await mergeDisks({ disks: ['root', 'a', 'b', 'c'].map(at), target: at('merged'), uid: UID })
    const [merged, all] = [chain('merged'), chain('a', 'b', 'c')].map(
      (each) => `json:${JSON.stringify(each)}`,
    )
    expect(image('compare', merged!, all!)).toContain('Images are identical')
    const { 'actual-size': bytes } = JSON.parse(image('info', '--output=json', at('merged')))
    expect(bytes).toBeLessThan(3 * 1024 ** 2)
  })

  test('reads no other file of the host, even if a disk names one', async () => {
    writeFileSync(at('secret'), Buffer.alloc(4 * 1024 ** 2, 's'))
    const options = ['-o', `data_file=${at('secret')},data_file_raw=on`]
    image('create', '-q', '-f', 'qcow2', ...options, at('evil'), '4M')
    chmodSync(at('secret'), 0o644)
    const merging = mergeDisks({ disks: ['root', 'evil'].map(at), target: at('stolen'), uid: UID })
    await expect(merging).rejects.toThrow(/merging the disks/)
  })
})
