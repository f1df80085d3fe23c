import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, readdir, realpath, rm, symlink, utimes, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { newLayerId, newSandboxId } from '@dormouse/contracts'
import { LinuxEngine } from '@dormouse/engine-linux'
import { afterAll, expect, test } from 'vitest'
import { Layout } from '../../packages/engine-linux/src/host/layout.ts'
import { testDataDir } from '../test-data-dir.ts'

const dataDir = await mkdtemp(join(tmpdir(), 'dormouse-template-'))
const layout = new Layout(dataDir, dataDir)
afterAll(async () => {
  await rm(dataDir, { recursive: true })
  await rm(layout.runDir, { recursive: true, force: true })
})

/** The template without its snapshots. */
async function shareTemplate(): Promise<string> {
  const build = await realpath(join(testDataDir, 'templates/python/current'))
  const own = join(dataDir, 'templates/python', basename(build))
  // As a try before this one may have left it.
  for (const name of ['templates', 'tools']) await rm(join(dataDir, name), { recursive: true, force: true })
  await mkdir(own, { recursive: true })
  for (const name of ['rootfs', 'template.json']) await symlink(join(build, name), join(own, name))
  await symlink(basename(build), join(dataDir, 'templates/python/current'))
  await symlink(join(testDataDir, 'tools'), join(dataDir, 'tools'))
  return join(own, 'snapshots')
}

test('a new snapshot of a template takes the place of older ones, but for the last, and of no layer', async () => {
  const snapshots = await shareTemplate()
  for (const [age, name] of ['of-today', 'of-yesterday', 'of-last-year'].entries()) {
    const manifest = join(snapshots, name, 'manifest.json')
    await mkdir(join(snapshots, name), { recursive: true })
    await writeFile(manifest, '{}')
    await utimes(manifest, 1000 - age, 1000 - age)
  }
  await mkdir(join(snapshots, '.taking-cut-off'))
  const layer = newLayerId()
  await mkdir(join(layout.templateLayersDir, layer), { recursive: true })

  await using engine = await LinuxEngine.open({ dataDir })
  expect(await engine.isTemplatePrepared('python')).toBe(false)
  await engine.prepareTemplate('python')
  expect(await engine.isTemplatePrepared('python')).toBe(true)
  const left = await readdir(snapshots)
  expect(left).toHaveLength(2)
  expect(left).toContain('of-today')
  expect(await readdir(layout.templateLayersDir)).toContain(layer)

  await using burrow = await engine.createBurrow({ sandboxId: newSandboxId(), template: 'python' })
  await burrow.guest.contexts.create({ context: 'other' })
  const { stdout: neverRan } = await burrow.guest.runs.run({ code: TRACES, context: 'other' })
  expect(neverRan).toMatch(/ 1 \['<cell 1>'\] \{\}\n$/)
  expect((await burrow.guest.runs.run({ code: TRACES })).stdout).toBe(neverRan)
  expect((await burrow.guest.runs.run({ code: 'import sys; print("numpy" in sys.modules)' })).stdout).toBe(
    'True\n',
  )
  expect((await burrow.guest.runs.run({ code: MAPPINGS })).stdout).toBe("{'libc.so.6'} True\n")
  expect((await burrow.guest.runs.run({ code: COUNTS })).stdout).toBe('{4294967295} True None 2\n')
})

/** What earlier runs leave: the kernel of a template has rehearsed some, and has to have forgotten them. */
const TRACES = `import linecache; from dormouse_kernel.definitions import _known
print(sorted(globals()), In, Out, [_, __, ___], [_i, _ii, _iii], _dh, get_ipython().execution_count,
      [name for name in linecache.cache if name.startswith("<cell")], _known)`

/** The counts of what the template imported, and that objects of a user still end with their last reference. */
const COUNTS = `import numpy, pandas, sys, weakref
class Own: pass
own = Own(); reference = weakref.ref(own); was_alive = reference() is own
del own
text = [str(numpy.random.random())]
counts = {sys.getrefcount(each) for each in (pandas.read_csv, pandas.DataFrame, pandas.DataFrame.sum.__code__, sys)}
print(counts, was_alive, reference(), sys.getrefcount(text[0]))`

/** Which libraries are mapped from their own files, and whether anything can be both written and executed. */
const MAPPINGS = `import re
lines = [line.split(None, 5) for line in open("/proc/self/maps")]
own = {each[5].strip().split("/")[-1] for each in lines if len(each) > 5 and re.search(r"^/usr/.*\\.so", each[5])}
print({name for name in own if name.startswith("libc.")}, not [each for each in lines if each[1].startswith("rwx")] and len(own) < 4)`

test('a template whose snapshot is damaged boots, until it is saved anew', async () => {
  const [snapshot] = await readNamed(
    join(await realpath(join(dataDir, 'templates/python/current')), 'snapshots'),
  )
  await writeFile(join(snapshot!, 'manifest.json'), '{ "formatVersion": ')
  await using engine = await LinuxEngine.open({ dataDir })
  expect(await engine.isTemplatePrepared('python')).toBe(false)
  await using booted = await engine.createBurrow({ sandboxId: newSandboxId(), template: 'python' })
  expect((await booted.guest.runs.run({ code: 'print("here")' })).stdout).toBe('here\n')
  await engine.prepareTemplate('python')
  expect(await engine.isTemplatePrepared('python')).toBe(true)
})

/** Snapshots that have images. */
async function readNamed(snapshots: string): Promise<string[]> {
  const all = (await readdir(snapshots)).map((name) => join(snapshots, name))
  return all.filter((path) => existsSync(join(path, 'images')))
}
