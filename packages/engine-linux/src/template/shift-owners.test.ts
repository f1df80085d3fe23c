import { execFileSync, spawnSync } from 'node:child_process'
import {
  chmodSync,
  chownSync,
  linkSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { ownProgram } from '../native-programs.ts'
import { UID_BASE, UID_COUNT } from './shifted-root.ts'

let root: string
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'dormouse-own-'))
})
afterEach(() => rmSync(root, { recursive: true }))

const at = (name: string) => join(root, name)
const own = () => spawnSync(ownProgram, [String(UID_BASE), String(UID_COUNT), root], { encoding: 'utf8' })
const ownerOf = (name: string) => {
  const { uid, gid } = lstatSync(at(name))
  return [uid - UID_BASE, gid - UID_BASE]
}

it('dormouse-own shifts every owner once, and keeps setuid bits and capabilities', () => {
  mkdirSync(at('home'))
  chownSync(at('home'), 1000, 1000)
  writeFileSync(at('su'), '')
  chmodSync(at('su'), 0o4755)
  linkSync(at('su'), at('second-name'))
  symlinkSync('/etc/passwd', at('link'))
  writeFileSync(at('ping'), '')
  execFileSync('setcap', ['cap_net_raw+ep', at('ping')])
  const outside = lstatSync('/etc/passwd').uid
  expect(own()).toMatchObject({ status: 0, stderr: '' })
  expect(ownerOf('.')).toEqual([0, 0])
  expect(ownerOf('home')).toEqual([1000, 1000])
  expect(ownerOf('su')).toEqual([0, 0])
  expect(ownerOf('link')).toEqual([0, 0])
  expect(lstatSync(at('su')).mode & 0o7777).toBe(0o4755)
  expect(lstatSync('/etc/passwd').uid).toBe(outside)
  const shown = execFileSync('getcap', ['-n', at('ping')], { encoding: 'utf8' })
  expect(shown).toContain(`cap_net_raw=ep [rootid=${UID_BASE}]`)
})

it('dormouse-own refuses an owner that no sandbox has', () => {
  writeFileSync(at('file'), '')
  chownSync(at('file'), 70_000, 0)
  const { status, stderr } = own()
  expect(status).toBe(1)
  expect(stderr).toContain('belongs to 70000:0')
})
