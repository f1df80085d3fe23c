import { execFileSync } from 'node:child_process'
import { mkdtempSync, readdirSync, readlinkSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { listTarEntries } from './tar-entries.ts'

const dir = mkdtempSync(join(tmpdir(), 'dormouse-tar-'))
afterAll(() => rmSync(dir, { recursive: true, force: true }))

const isOpen = (path: string) =>
  readdirSync('/proc/self/fd').some((fd) => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`) === path
    } catch {
      return false
    }
  })

test.each([
  ['plain', '-cf'],
  ['compressed', '-czf'],
])('a %s archive is listed, and does not stay open', async (name, flag) => {
  const archive = join(dir, `${name}.tar`)
  writeFileSync(join(dir, 'file'), Buffer.alloc(2 ** 20, name))
  // Much padding behind the end of the archive: it ends before its file does.
  execFileSync('tar', ['-b', '4096', flag, archive, '-C', dir, 'file'])
  expect((await listTarEntries(archive)).map(({ path }) => path)).toEqual(['file'])
  await expect.poll(() => isOpen(archive)).toBe(false)
})
