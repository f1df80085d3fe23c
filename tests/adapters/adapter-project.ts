import { execFile } from 'node:child_process'
import { cp, mkdir, mkdtemp, readdir, rm, symlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

const run = promisify(execFile)
const root = fileURLToPath(new URL('../../', import.meta.url))

/** A project outside the repository that has the SDK as it is published and the real frameworks. */
export class AdapterProject {
  readonly directory: string

  private constructor(directory: string) {
    this.directory = directory
  }

  static async make(): Promise<AdapterProject> {
    const directory = await mkdtemp(join(tmpdir(), 'dormouse-adapters-'))
    const modules = join(directory, 'node_modules')
    await mkdir(modules)
    const { stdout } = await run('npm', ['pack', '--json', '--pack-destination', directory], {
      cwd: join(root, 'packages/sdk'),
    })
    const [{ filename }] = JSON.parse(stdout.slice(stdout.indexOf('[')))
    await run('tar', ['-xzf', filename], { cwd: directory })
    await cp(join(directory, 'package'), join(modules, 'dormouse'), { recursive: true })
    // Links: Node finds what a framework needs beside its real directory.
    for (const name of await packageNames(join(root, 'tests/packages/node_modules'))) {
      await mkdir(dirname(join(modules, name)), { recursive: true })
      await symlink(join(root, 'tests/packages/node_modules', name), join(modules, name))
    }
    await cp(join(root, 'examples/adapters'), directory, { recursive: true })
    return new AdapterProject(directory)
  }

  async run(argv: readonly string[], env: Record<string, string | undefined>) {
    return run(process.execPath, [...argv], {
      cwd: this.directory,
      env: { PATH: process.env['PATH'], ...env },
    })
  }

  async remove(): Promise<void> {
    await rm(this.directory, { recursive: true, force: true })
  }
}

async function packageNames(modules: string): Promise<string[]> {
  const names: string[] = []
  for (const name of await readdir(modules)) {
    if (name.startsWith('.')) continue
    if (!name.startsWith('@')) names.push(name)
    else names.push(...(await readdir(join(modules, name))).map((each) => `${name}/${each}`))
  }
  return names
}
