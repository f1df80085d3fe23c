import { execFile } from 'node:child_process'
import { link, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { TreeMeasurement } from './tree-measurement.ts'

const exec = promisify(execFile)
const PATIENCE_MS = 60_000
let root = ''
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'dormouse-weigh-'))
})
afterAll(() => rm(root, { recursive: true, force: true }))

async function weigh(path: string, stopAt = {}) {
  using weighing = new TreeMeasurement(path, stopAt)
  return await weighing.advance(PATIENCE_MS)
}

async function directory(name: string): Promise<string> {
  await mkdir(join(root, name))
  return join(root, name)
}

describe('TreeMeasurement', () => {
  test('finds what du finds: names, sparse files, files with several names, and follows no link', async () => {
    const path = await directory('plain')
    await mkdir(join(path, 'a/b'), { recursive: true })
    await writeFile(join(path, 'a/f'), Buffer.alloc(1_000_000))
    await link(join(path, 'a/f'), join(path, 'a/b/same'))
    await symlink('/', join(path, 'out'))
    await exec('truncate', ['-s', '1G', join(path, 'sparse')])
    const { stdout } = await exec('du', ['--summarize', '--block-size=1', path])
    expect(await weigh(path)).toEqual({ bytes: Number.parseInt(stdout, 10), files: 6, isWhole: true })
  })

  test('copes with a tree that is deeper than any path', async () => {
    const path = await directory('deep')
    const code = `import os\nos.chdir(${JSON.stringify(path)})\nfor i in range(3000):\n  os.mkdir("d" * 40); open("f", "w").close(); os.chdir("d" * 40)`
    await exec('python3', ['-c', code])
    expect(await weigh(path)).toMatchObject({ files: 6_000, isWhole: true })
    await exec('rm', ['-rf', path])
  })

  test('ends as soon as there are more files, or more bytes, than it is to look for', async () => {
    const path = await directory('many')
    for (let i = 0; i < 300; i++) await writeFile(join(path, String(i)), 'x')
    expect(await weigh(path, { files: 100 })).toMatchObject({ files: 101, isWhole: false })
    expect(await weigh(path, { files: 300 })).toMatchObject({ files: 300, isWhole: true })
    const { bytes = 0, isWhole } = (await weigh(path, { bytes: 50_000 })) ?? {}
    expect({ isOver: bytes > 50_000 && bytes < 100_000, isWhole }).toEqual({ isOver: true, isWhole: false })
  })

  test('stops between time slices, continues in the next, and ends when it is cancelled', async () => {
    const path = await directory('large')
    await exec('python3', ['-c', `import os\nfor i in range(60000): open(f"${path}/{i}", "w").close()`])
    using weighing = new TreeMeasurement(path)
    expect(await weighing.advance(0)).toBeUndefined()
    const pid = await childOf(path)
    await expect.poll(() => stateOf(pid)).toBe('T')
    expect(await weighing.advance(PATIENCE_MS)).toMatchObject({ files: 60_000, isWhole: true })
    const given = new TreeMeasurement(path)
    expect(await given.advance(0)).toBeUndefined()
    const other = await childOf(path)
    given[Symbol.dispose]()
    await expect.poll(() => stateOf(other)).toBeUndefined()
  })

  test('says when it cannot tell', async () => {
    await expect(weigh(join(root, 'absent'))).rejects.toThrow(/could not be measured/)
  })
})

/** The process that weighs this directory. */
async function childOf(path: string): Promise<number> {
  const children = await readFile(`/proc/self/task/${process.pid}/children`, 'latin1')
  for (const pid of children.trim().split(' ')) {
    const line = await readFile(`/proc/${pid}/cmdline`, 'latin1').catch(() => '')
    if (line.split('\0').includes(path) && (await stateOf(Number(pid))) !== 'Z') return Number(pid)
  }
  throw new Error('nothing weighs it')
}

async function stateOf(pid: number): Promise<string | undefined> {
  const stat = await readFile(`/proc/${pid}/stat`, 'latin1').catch(() => undefined)
  return stat?.slice(stat.lastIndexOf(')') + 2, stat.lastIndexOf(')') + 3)
}
