import { execFile } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, expect, test } from 'vitest'
import { guardLibrary } from '../../packages/engine-linux/src/native-programs.ts'

const here = fileURLToPath(new URL('.', import.meta.url))
const native = fileURLToPath(new URL('../../packages/engine-linux/native/src', import.meta.url))
const COMPILE = ['-O1', '-g', '-std=gnu17', '-D_GNU_SOURCE', '-Wall', '-Wextra', '-Werror']
const run = promisify(execFile)
const dir = await mkdtemp(join(tmpdir(), 'dormouse-abandoned-'))
afterAll(() => rm(dir, { recursive: true, force: true }))

test('a thread in which a system call was prepared continues by itself when the mover ends, at each step of it', async () => {
  const program = join(dir, 'abandoned')
  const parts = ['live-calls.c', 'live-tasks.c', 'report.c'].map((name) => join(native, name))
  await run('gcc', [...COMPILE, '-I', native, '-o', program, join(here, 'abandoned.c'), ...parts])
  const { stdout } = await run(program, ['400'], { env: { ...process.env, LD_PRELOAD: guardLibrary } })
  expect(stdout).toBe('fine 1\n')
})
