import { execFile } from 'node:child_process'
import { readFile, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

/** Starts a server that sees a CPU with one feature more than this machine has. */
export async function launcherWithFeature(directory: string, feature: string): Promise<readonly string[]> {
  const library = join(directory, 'own-cpu.so')
  const source = fileURLToPath(new URL('own-cpu.c', import.meta.url))
  const flags = ['-O2', '-Wall', '-Wextra', '-Werror', '-shared', '-fPIC']
  await promisify(execFile)('cc', [...flags, '-o', library, source, '-ldl'])
  const cpuinfo = join(directory, 'cpuinfo')
  const real = await readFile('/proc/cpuinfo', 'utf8')
  await writeFile(cpuinfo, real.replace(/^(flags|Features)(\s*:)/gm, `$1$2 ${feature}`))
  return ['env', `LD_PRELOAD=${library}`, `DORMOUSE_TEST_CPUINFO=${cpuinfo}`]
}

/** Memory that a server sees as free. It must be started by such a launcher. */
export class OwnMemory {
  readonly launcher: readonly string[]
  readonly #file: string

  private constructor(launcher: readonly string[], file: string) {
    this.#file = file
    this.launcher = [...launcher, `DORMOUSE_TEST_MEMINFO=${file}`]
  }

  /** `launcher`: one of `launcherWithFeature`. */
  static async make(launcher: readonly string[], directory: string): Promise<OwnMemory> {
    const memory = new OwnMemory(launcher, join(directory, 'meminfo'))
    await memory.show()
    return memory
  }

  /** Without a number: what this machine has at the moment. */
  async show(freeBytes?: number): Promise<void> {
    const real = await readFile('/proc/meminfo', 'utf8')
    const free = freeBytes === undefined ? '$1' : `MemAvailable: ${Math.round(freeBytes / 1024)} kB`
    await writeFile(`${this.#file}.new`, real.replace(/^(MemAvailable:.*)$/m, free))
    await rename(`${this.#file}.new`, this.#file)
  }
}
