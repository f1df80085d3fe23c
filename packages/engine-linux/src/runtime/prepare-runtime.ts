import { createHash } from 'node:crypto'
import { chmod, lstat, mkdir, rm, stat, symlink } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { publishDirectory } from '../host/publish-directory.ts'
import { runCommandOrFail } from '../host/run-command.ts'
import { makeOwnedDirectory, removeAbandoned } from '../host/work-directory.ts'
import type { Template } from '../template/template-store.ts'
import { listRuntime, type RuntimeFiles } from './list-runtime.ts'
import {
  LIBRARIES_IN_TOOLS,
  LOADER_IN_TOOLS,
  patchLoader,
  patchProgram,
  thisMachine,
} from './patch-loader.ts'

/** Raised when the same template makes another runtime. */
const RUNTIME_VERSION = 2
/** Directory of the programs, below /.dormouse. */
const RUNTIME_IN_TOOLS = 'runtime'
export const RUNTIME_PYTHON = `${RUNTIME_IN_TOOLS}/bin/python3`

/**
 * Copies Python, IPython and bash of a template into a directory of their own, once per build of the template. Returns
 * the directory: its content belongs at the top of /.dormouse.
 */
export async function prepareRuntime(dataDir: string, template: Template): Promise<string> {
  const name = createHash('sha256')
    .update(JSON.stringify([RUNTIME_VERSION, template.name, template.hash, template.manifest.createdAt]))
    .digest('hex')
    .slice(0, 16)
  const final = join(dataDir, 'tools', 'runtime', name)
  const place = { parent: dirname(final), prefix: '.building-' }
  // Missing: the template is new, or this version has not made its runtime yet.
  if (await stat(final).catch(() => undefined)) return final
  await mkdir(dirname(final), { recursive: true, mode: 0o711 })
  await removeAbandoned(place)
  const work = await makeOwnedDirectory(place)
  try {
    await copyRuntime(template.rootfs, await listRuntime(template.rootfs), work)
    await publishDirectory(work, final)
  } catch (error) {
    await rm(work, { recursive: true, force: true })
    // Two servers can start at once; the second finds the directory of the first.
    if (!(await stat(final).catch(() => undefined))) throw error
  }
  return final
}

async function copyRuntime(rootfs: string, files: RuntimeFiles, into: string): Promise<void> {
  const machine = thisMachine()
  const libraries = join(into, LIBRARIES_IN_TOOLS[machine])
  const programs = join(into, RUNTIME_IN_TOOLS, 'bin')
  const stdlib = join(into, RUNTIME_IN_TOOLS, 'lib', basename(files.stdlib))
  const packages = join(into, RUNTIME_IN_TOOLS, 'lib', 'python3', 'dist-packages')
  const loader = join(into, LOADER_IN_TOOLS)
  for (const path of [libraries, programs, dirname(stdlib), packages]) await mkdir(path, { recursive: true })
  const inside = (path: string) => join(rootfs, path)
  // -L: many names in these directories are links to files elsewhere in the template.
  await copy(['-pL', '--', inside(files.loader), loader])
  await copy(['-pL', '-t', libraries, '--', ...files.libraries.map(inside)])
  await copy(['-pL', '-t', programs, '--', inside(files.python), inside(files.bash)])
  await copy(['-pR', '-T', '--', inside(files.stdlib), stdlib])
  await copy(['-pR', '-t', packages, '--', ...files.packages.map(inside)])
  await patchLoader(loader, machine)
  const python = basename(files.python)
  for (const program of [python, basename(files.bash)]) await patchProgram(join(programs, program), machine)
  if (python !== 'python3') await symlink(python, join(programs, 'python3'))
  for (const path of [loader, join(programs, python)]) await chmod(path, 0o755)
  await lstat(join(stdlib, 'os.py'))
}

async function copy(args: readonly string[]): Promise<void> {
  await runCommandOrFail({ argv: ['cp', ...args] }, 'copying the runtime')
}
