import { execFile } from 'node:child_process'
import { readFile, writeFile } from 'node:fs/promises'
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
