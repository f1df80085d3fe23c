import { mkdtempSync, rmSync } from 'node:fs'
import { mkdir, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { criuLibraries } from '../native-programs.ts'
import { type Criu, compareVersions, isUsable, probeCriuRoot } from './find-criu.ts'

let root: string
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'dormouse-criu-'))
})
afterEach(() => rmSync(root, { recursive: true }))

it.each([
  ['4.2', '4.2', 0],
  ['4.2.1', '4.2', 1],
  ['4.10', '4.9', 1],
  ['3.17.1', '4.2', -1],
])('compareVersions(%s, %s) has the sign of %i', (left, right, sign) => {
  expect(Math.sign(compareVersions(left, right))).toBe(sign)
})

it.each([
  ['4.2.1', 'ok', true],
  ['4.1.1', 'ok', false],
  ['4.2.1', 'Error: no', false],
])('isUsable of version %s with check %j is %s', (version, check, usable) => {
  const criu: Criu = { version, check, argv: ['criu'], root: '/' }
  expect(isUsable(criu)).toBe(usable)
})

describe('probeCriuRoot', () => {
  /** A stand-in for the loader: it gets `--library-path <dir> <criu> <action>`. */
  async function makeRoot(script: string) {
    await mkdir(join(root, 'usr/lib/riscv64-linux-gnu'), { recursive: true })
    await mkdir(join(root, 'usr/sbin'), { recursive: true })
    await writeFile(join(root, 'usr/lib/ld-linux-riscv64-lp64d.so.1'), `#!/bin/sh\n${script}\n`, {
      mode: 0o755,
    })
    await symlink('/bin/true', join(root, 'usr/sbin/criu'))
  }

  it('finds loader and libraries whatever the architecture calls them', async () => {
    await makeRoot('if [ "$4" = --version ]; then echo Version: 4.3; fi')
    const libraries = join(root, 'usr/lib/riscv64-linux-gnu')
    expect(await probeCriuRoot(root)).toEqual({
      version: '4.3',
      check: 'ok',
      root,
      argv: [
        join(root, 'usr/lib/ld-linux-riscv64-lp64d.so.1'),
        '--library-path',
        `${criuLibraries}:${libraries}`,
        join(root, 'usr/sbin/criu'),
      ],
    })
  })

  it('gives a CRIU that does not work with the stand-ins its own libraries', async () => {
    await makeRoot(
      `case "$2" in ${criuLibraries}:*) exit 127;; esac; if [ "$4" = --version ]; then echo Version: 4.3; fi`,
    )
    const found = await probeCriuRoot(root)
    expect(found).toMatchObject({ version: '4.3', check: 'ok' })
    expect(found?.argv[2]).toBe(join(root, 'usr/lib/riscv64-linux-gnu'))
  })

  it('passes on what the check complains about', async () => {
    await makeRoot('if [ "$4" = --version ]; then echo Version: 4.3; else echo "Error: no vdso"; exit 1; fi')
    expect((await probeCriuRoot(root))?.check).toBe('Error: no vdso')
  })

  it('answers undefined for a directory without CRIU', async () => {
    expect(await probeCriuRoot(root)).toBeUndefined()
  })
})
