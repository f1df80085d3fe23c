import { mkdir, symlink } from 'node:fs/promises'
import { join } from 'node:path'
import { testDataDir } from './test-data-dir.ts'

/** Makes a data directory with everything that set-up makes, for commands that begin with set-up. */
export async function makeSetUpDirectory(path: string): Promise<string> {
  await mkdir(path, { mode: 0o711 })
  await linkSetUp(path)
  return path
}

export async function linkSetUp(dataDir: string): Promise<void> {
  for (const part of ['stamps', 'templates', 'template-layers', 'tools'])
    await symlink(join(testDataDir, part), join(dataDir, part))
}
