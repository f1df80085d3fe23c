import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { makeOwnedDirectory, removeAbandoned } from './work-directory.ts'

let parent: string
beforeEach(() => {
  parent = mkdtempSync(join(tmpdir(), 'dormouse-work-'))
})
afterEach(() => rmSync(parent, { recursive: true }))

test('a directory of a live process stays, that of an ended one goes with all that is in it', async () => {
  const mine = await makeOwnedDirectory({ parent, prefix: '.w-' })
  const sleeper = spawn('sleep', ['100'])
  const stat = readFileSync(`/proc/${sleeper.pid}/stat`, 'utf8')
  const startTime = stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19]
  const theirs = `.w-${sleeper.pid}-${startTime}-0123456789ab`
  await mkdir(join(parent, theirs, 'deep'), { recursive: true })
  await writeFile(join(parent, theirs, 'deep', 'file'), 'x')
  await removeAbandoned({ parent, prefix: '.w-' })
  expect(readdirSync(parent).sort()).toEqual([basename(mine), theirs].sort())
  sleeper.kill('SIGKILL')
  await once(sleeper, 'exit')
  await removeAbandoned({ parent, prefix: '.w-' })
  expect(readdirSync(parent)).toEqual([basename(mine)])
})

test('a directory of an ended process goes also when its number has been given to another', async () => {
  await mkdir(join(parent, `.w-${process.pid}-1-0123456789ab`))
  await removeAbandoned({ parent, prefix: '.w-' })
  expect(readdirSync(parent)).toEqual([])
})

test('what other programs call alike stays', async () => {
  for (const name of ['.w-1-2-notours', '.w-', '.other-1-2-0123456789ab']) await mkdir(join(parent, name))
  await removeAbandoned({ parent, prefix: '.w-' })
  expect(readdirSync(parent)).toHaveLength(3)
})
