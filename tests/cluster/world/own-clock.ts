import { execFile } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

/** Builds what shifts the wall clock of one process. */
export async function buildClock(directory: string): Promise<string> {
  const library = join(directory, 'own-clock.so')
  const source = fileURLToPath(new URL('own-clock.c', import.meta.url))
  const flags = ['-O2', '-Wall', '-Wextra', '-Werror', '-shared', '-fPIC']
  await promisify(execFile)('cc', [...flags, '-o', library, source, '-ldl'])
  return library
}

/** The wall clock of one process. */
export class OwnClock {
  readonly launcher: readonly string[]
  readonly #file: string

  private constructor(library: string, file: string) {
    this.#file = file
    this.launcher = ['env', `LD_PRELOAD=${library}`, `DORMOUSE_TEST_CLOCK=${file}`]
  }

  static async make(library: string, file: string): Promise<OwnClock> {
    const clock = new OwnClock(library, file)
    await clock.set(0)
    return clock
  }

  /** Seconds before or after the clock of the machine, from now on. */
  async set(seconds: number): Promise<void> {
    const value = Buffer.alloc(8)
    value.writeBigInt64LE(BigInt(seconds))
    // Written in place: the process has mapped the file.
    await writeFile(this.#file, value, { flag: 'r+' }).catch(() => writeFile(this.#file, value))
  }
}
